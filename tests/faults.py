"""The seeded faults: each breaks one line of the library, and the tests must notice; ``make mutants`` tries them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One broken line: in ``file``, below the package, ``old`` becomes ``new``."""

    label: str
    file: str
    old: str
    new: str


REFERENCE, NATIVE, SAMPLER = "sampling/kernels/reference.py", "sampling/kernels/native.py", "sampling/sampler.py"

STORAGE = [
    Fault("damaged state accepted", "storage/checkpoint.py", 'manifest["state_sha256"] != sha256(state)', "False"),
    Fault("checkpoint written in place", "storage/checkpoint.py", 'f"{TEMPORARY}{final.name}"', "f'{final.name}'"),
    Fault("history not cut back", "storage/runs.py", "os.truncate(self._history, length)", "pass"),
    Fault("files overwritten silently", "storage/files.py", "(path.exists() and not overwrite)", "False"),
    Fault("half-written files left behind", "storage/files.py", "temporary.unlink(missing_ok=True)", "pass"),
]
SAMPLING = [
    Fault("noise without sqrt 2", REFERENCE, "(2.0 * step.step_size /", "(1.0 * step.step_size /"),
    Fault("noise without temperature", REFERENCE, "step.step_size / step.tau)", "step.step_size)"),
    Fault("noise with G instead of sqrt G", REFERENCE, ".div_(inverse_metric.sqrt_())", ".div_(inverse_metric)"),
    Fault(
        "noise without G",
        REFERENCE,
        "if block.v is None else (noise * scale).div_",
        "if True else (noise * scale).div_",
    ),
    Fault(
        "drift without G",
        REFERENCE,
        "_add_quotient(moved, u, inverse_metric,",
        "_add_quotient(moved, u, inverse_metric**0,",
    ),
    Fault(
        "ascent of the potential", REFERENCE, "_add_scaled(moved, u, -step_size)", "_add_scaled(moved, u, step_size)"
    ),
    Fault(
        "swapped weights of V",
        REFERENCE,
        "_add_product(block.v.mul_(alpha), u, u, 1.0 - alpha)",
        "_add_product(block.v.mul_(1.0 - alpha), u, u, alpha)",
    ),
    Fault("V starts from zero", REFERENCE, "0.0 if step.first else step.alpha", "step.alpha"),
    Fault("V of the likelihood alone", REFERENCE, "_add_product(block.v", "u = u - block.beta; _add_product(block.v"),
    Fault("eta inside the root", REFERENCE, "root = block.v.sqrt()", "root = (block.v + step.eta).sqrt()"),
    Fault(
        "rho from the old beta",
        REFERENCE,
        "    drift, noise = _move(block, step, z)\n",
        "    old = block.beta.clone()\n    drift, noise = _move(block, step, z)\n    block.beta = old\n",
    ),
    Fault(
        "kappa never follows rho", REFERENCE, "    block.s.mul_(1.0 - step.omega).add_(block.rho * step.omega)\n", ""
    ),
    Fault(
        "kappa from the odds, not from rho",
        REFERENCE,
        "block.s.mul_(1.0 - step.omega).add_(block.rho * step.omega)",
        "block.s.copy_(block.rho)",
    ),
    Fault("Gamma with the wrong sign", REFERENCE, "moved.add_(correction * step", "moved.sub_(correction * step"),
    Fault("Gamma not divided by tau", REFERENCE, "correction.div_(step.tau)", "correction.div_(1.0)"),
    Fault("Gamma without the prior", REFERENCE, "block.curvature + block.prior.precision", "block.curvature"),
    Fault(
        "mask not applied", REFERENCE, "vector.masked_fill_(~block.keep, 0.0)", "vector.masked_fill_(~block.keep, 1e-9)"
    ),
    Fault("momentum with whole steps", REFERENCE, "step_size = step.step_size * share", "step_size = step.step_size"),
    Fault("momentum with whole noise", REFERENCE, "_add_scaled(moved, noise, share)", "_add_scaled(moved, noise, 1.0)"),
    Fault("native: noise without sqrt 2", NATIVE, "math.sqrt(2.0 * step.step_size", "math.sqrt(1.0 * step.step_size"),
    Fault("native: V starts from zero", NATIVE, "memory = 0.0 if step.first else", "memory ="),
    Fault("native: Gamma not divided by tau", NATIVE, "real(1.0 / step.tau)", "real(1.0)"),
    Fault("native: mask not applied", NATIVE, "b, move, drift, kick = zero, zero,", "move, drift, kick = zero,"),
    Fault("native: blocks share their noise", NATIVE, "normals(key, k, (start + low) // 2", "normals(key, k, low // 2"),
    Fault("native: pairs begin at the wrong half", NATIVE, "odd = start % 2", "odd = 0"),
    Fault("native: rounding in exp", NATIVE, "- n * LOG_2_LOW", ""),
    Fault("native: momentum with whole steps", NATIVE, "c.share * (kick", "(kick"),
    Fault("native: a pruned velocity", NATIVE, "b, move, drift, kick = zero, zero,", "b, drift, kick = zero,"),
    Fault(
        "native: cancellation near u = 1", "sampling/kernels/native_noise.py", "if exponent == 0:", "if exponent == 1:"
    ),
    Fault("no N/n", SAMPLER, "return self.num_data / examples", "return 1.0"),
    Fault("no N/n in sigma", SAMPLER, "rss=scale * float", "rss=float"),
    Fault("residuals counted as N", SAMPLER, "self.num_data * evaluation.residuals_per_example", "self.num_data"),
    Fault("pruned weights counted in sigma", SAMPLER, "live = self._kept if", "live = self._sizes if"),
    Fault("the same noise every step", SAMPLER, "self._noise, k)", "self._noise, 1)"),
    Fault("delta jumps", SAMPLER, "(1.0 - omega) * delta + omega * target", "target"),
    Fault("sigma jumps", SAMPLER, "(1.0 - omega) * self.sigma + omega * target", "target"),
    Fault("chains share their noise", SAMPLER, "stream = 2 * self.chain + kind", "stream = kind"),
    Fault("steps not counted after a failure", SAMPLER, "k = self.steps + 1", "k = self.steps = self.steps + 1"),
    Fault("sign of B in the quadratic", "sampling/likelihoods.py", "return (b + math.sqrt", "return (-b + math.sqrt"),
    Fault(
        "likelihood without the half", "sampling/likelihoods.py", "rss * (-0.5 / sigma**2)", "rss * (-1.0 / sigma**2)"
    ),
    Fault(
        "likelihood with sigma, not sigma^2",
        "sampling/likelihoods.py",
        "rss * (-0.5 / sigma**2)",
        "rss * (-0.5 / sigma)",
    ),
    Fault("nu left out of sigma", "sampling/likelihoods.py", "residuals + weights + self.nu,", "residuals + weights,"),
    Fault("no sigma in the Laplace gradient", "sampling/priors.py", "(1.0 / (prior.v0 * sigma))", "(1.0 / prior.v0)"),
    Fault(
        "no sigma^2 in the slab gradient",
        "sampling/priors.py",
        "mul_(1.0 / (prior.v1 * sigma**2))",
        "mul_(1.0 / prior.v1)",
    ),
    Fault(
        "swapped spike and slab", "sampling/priors.py", "beta.abs().mul_(1.0 / (sigma", "beta.abs().mul_(-1.0 / (sigma"
    ),
    Fault("odds without delta", "sampling/priors.py", "+ math.log(max(delta, tiny)) - ", "+ 0.0 * delta - "),
    Fault(
        "the printed norm of kappa1*beta",
        "sampling/priors.py",
        "torch.dot(s, beta.square())",
        "torch.dot(s * s, beta.square())",
    ),
    Fault(
        "delta's mode for its mean", "sampling/priors.py", 'self.delta_update == "mean"', 'self.delta_update == "none"'
    ),
    Fault("pairs share one normal number", "sampling/noise.py", "radius * angle.sin()", "radius * angle.cos()"),
    Fault(
        "short vectors repeat over steps", "sampling/noise.py", "ahead + _signed(first)", "ahead * 0 + _signed(first)"
    ),
    Fault("half the angles", "sampling/noise.py", "2.0**-32 * 2.0 * math.pi", "2.0**-32 * math.pi"),
    Fault("one round too few", "sampling/noise.py", "in range(ROUNDS)", "in range(ROUNDS - 1)"),
    Fault("largest weights pruned", "sampling/pruning.py", "magnitude = values.abs()", "magnitude = -values.abs()"),
    Fault("ties prune too many", "sampling/pruning.py", "tied[: count - int(chosen.sum())]", "tied"),
    Fault(
        "zeros not held", "sampling/pruning.py", "return not self.regrow or step > self.end", "return step > self.end"
    ),
    Fault(
        "target missed at the end", "sampling/pruning.py", "return step == self.end or (", "return (step == -1) or ("
    ),
    Fault("omega above 1 not capped", "sampling/health.py", "if not initial > 1:", "if True:"),
    Fault("random state not restored", "sampling/training.py", "self._set_random_state(self.rng)", "pass"),
    Fault("the same order every epoch", "sampling/batches.py", "* 1_000_000_007 + self.epoch", "* 1_000_000_007"),
    Fault("a cycle without its end", "sampling/schedules.py", "math.ceil(phase) - 1", "math.floor(phase)"),
    Fault("a period that begins late", "sampling/schedules.py", "(step - 1) % self.period + 1", "step % self.period"),
]
POSTERIOR = [
    Fault("samples of equal weight", "posterior/bank.py", '"weight": info.step_size,', '"weight": 1.0,'),
    Fault(
        "a base left behind by rewinding",
        "posterior/bank.py",
        'for kind in ("sample", "base"):',
        'for kind in ("sample",):',
    ),
    Fault("burn-in of the first cycle only", "posterior/bank.py", "(info.step - 1) % self.cycle + 1", "info.step"),
    Fault(
        "a damaged sample accepted",
        "posterior/encoding.py",
        "_canonical(facts))) != crc",
        "_canonical(facts))) != crc and False",
    ),
    Fault("differences without their scale", "posterior/encoding.py", "    _scale(difference, exponent)", "    pass"),
    Fault(
        "half a bank forgotten by the budget",
        "posterior/thinning.py",
        "(step - self.offset) % self.spacing",
        "step % self.spacing",
    ),
    Fault(
        "quantiles without noise", "posterior/predictive.py", "sigmas) if noise else 0.0", "sigmas) if False else 0.0"
    ),
    Fault(
        "score without the spread between samples",
        "posterior/mixture.py",
        "total -= weights[i] *",
        "total -= 0 * weights[i] *",
    ),
    Fault("intervals of one side", "posterior/calibration.py", "[(1 - level) / 2, (1 + level) / 2]", "[1e-9, level]"),
    Fault(
        "chains not split",
        "posterior/diagnostics.py",
        "return np.concatenate([chains[:, :half], chains[:, -half:]])",
        "return chains",
    ),
]
LINEAR = [
    Fault("slab evidence without its width", "linear/coefficient.py", "slab = -0.5 * math.log1p(v1 * q) +", "slab ="),
    Fault(
        "spike drawn on one side only",
        "linear/coefficient.py",
        "side = 1.0 if np.random.random() < positive",
        "side = 1.0 if True",
    ),
    Fault(
        "jumps without their residuals",
        "linear/gaussian.py",
        "residual += (beta[j] - new) * column",
        "residual += 0.0 * column",
    ),
    Fault("Langevin noise too small", "linear/gaussian.py", "math.sqrt(2.0 * e)", "math.sqrt(1.0 * e)"),
    Fault("sigma without the spikes", "linear/gaussian.py", "spike += (1.0 - rho[j]) * size / v0", "spike += 0.0"),
    Fault("jumps always accepted", "linear/logistic.py", "after - before + backward - forward", "1.0"),
    Fault("corrected steps always accepted", "linear/logistic.py", "if np.random.random() < accept:", "if accept > 0:"),
    Fault(
        "moments added without the shift of means",
        "linear/moments.py",
        "np.outer(change, change) *",
        "0 * np.outer(change, change) *",
    ),
]
DEPLOY = [
    Fault("a panel of columns left out", "deploy/sparse_kernel.py", "in range(cuts.shape[1] - 1):", "in range(1):"),
    Fault("sums of a row not added up", "deploy/sparse_kernel.py", "for other in others:", "for other in others[1:]:"),
    Fault("a container that is not verified", "deploy/model_file.py", "if sha256(data) !=", "if False and"),
    Fault("a model replaced without asking", "deploy/model_file.py", "overwrite=overwrite", "overwrite=True"),
    Fault("stale weights left behind", "deploy/model_file.py", "stale.unlink()", "pass"),
    Fault("signs lost in packing", "deploy/encoding.py", " | (bits >> 31 << (8 * width - 1))", ""),
    Fault("a row of 65,536 in 16 bits", "deploy/encoding.py", "MAX_COLUMNS = 2**16 - 1", "MAX_COLUMNS = 2**16"),
    Fault("ONNX not compared", "deploy/onnx_file.py", "if not difference <= TOLERANCE * scale:", "if False:"),
]
PROBLEMS = [
    Fault(
        "x-edges in VTK's wrong order",
        "problems/darcy/vtk.py",
        "np.zeros(grid.shape)], axis=-1)",
        "np.zeros(grid.shape)])",
    ),
    Fault("a test set that sets its own scale", "problems/darcy/tensors.py", 'if split != "train":', "if False:"),
    Fault("never a logarithm", "problems/darcy/tensors.py", "log = skewness > 1 and", "log = skewness > 1e9 and"),
    Fault(
        "logarithm not taken",
        "problems/darcy/tensors.py",
        "torch.where(self.kappa_log > 0, kappa.log(), kappa)",
        "kappa",
    ),
    Fault(
        "imported samples not checked",
        "problems/darcy/imported.py",
        "check_permeabilities(self.kappa, self.grid)",
        "pass",
    ),
    Fault(
        "mass matrix without its neighbours",
        "problems/darcy/conservation.py",
        "(shared.T @ shared +",
        "(np.diag(shared.sum(0)) +",
    ),
    Fault(
        "closed sides stay open", "problems/darcy/conservation.py", "x * self.open_x, y * self.open_y[:, None]", "x, y"
    ),
    Fault(
        "no gradient of the input",
        "problems/darcy/layers.py",
        "if ctx.needs_input_grad[0] else None",
        "if False else None",
    ),
    Fault("data out of reach accepted", "problems/darcy/network.py", "if apart > 1e-6:", "if False:"),
    Fault("no correction of the mass balance", "problems/darcy/solver.py", "REFINEMENTS = 4", "REFINEMENTS = 0"),
    Fault(
        "the seed left out of a sample",
        "problems/darcy/datasets.py",
        "SeedSequence([recipe.seed, index])",
        "SeedSequence([index])",
    ),
]
SURROGATES = [
    Fault("noise from the first step on", "surrogates/train.py", "Switch(math.inf,", "Switch(settings.tau,"),
    Fault("dropout not seeded", "surrogates/train.py", "torch.manual_seed(settings.chain_seed)", "pass"),
    Fault("chains with the same noise", "surrogates/train.py", "chain=settings.chain", "chain=0"),
    Fault("chains with the same first weights", "surrogates/runs.py", "settings.chain_seed", "settings.seed"),
    Fault("one chain's samples only", "surrogates/runs.py", "[chain.bank() for chain in chains]", "[self.bank()]"),
    Fault("known edges count", "surrogates/calibration.py", "unknown = largest > 1e-6", "unknown = largest >= 0"),
]
FAULTS = [*STORAGE, *SAMPLING, *POSTERIOR, *LINEAR, *DEPLOY, *PROBLEMS, *SURROGATES]
