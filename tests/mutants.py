"""Seeded faults: break one line of the library at a time and see that the tests notice.

Run with ``make mutants``. Each fault is applied to a copy of the source; the tests run against the copy, the quick ones
first, and stop at the first failure. A fault that no test notices is reported, and the exit code is 1.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUITE = [
    "tests/sampling/test_update.py",
    "tests/sampling/kernels",
    "tests/sampling/test_reductions.py",
    "tests/sampling/test_gradient.py",
    "tests/sampling/test_priors.py",
    "tests/sampling/test_likelihoods.py",
    "tests/sampling/test_pruning.py",
    "tests/sampling/test_schedules.py",
    "tests/sampling/test_flat.py",
    "tests/sampling/test_sampler.py",
    "tests/sampling/test_noise.py",
    "tests/storage/test_checkpoint.py",
    "tests/sampling/test_training.py",
    "tests/sampling/test_resume.py",
    "tests/sampling/statistics",
]
# Parts that the sampler does not use have tests of their own.
OWN_SUITES = {
    "problems/darcy/": ["tests/problems/darcy", "tests/cli/test_data.py"],
    "linear/": ["tests/linear", "tests/linear/test_estimators.py"],
    "deploy/": ["tests/deploy"],
    "posterior/": ["tests/posterior"],
    "surrogates/": ["tests/surrogates/test_chains.py", "tests/surrogates"],
    "storage/files.py": ["tests/storage", "tests/problems/darcy/test_vtk.py", "tests/cli/test_data.py"],
    "storage/artefact.py": ["tests/storage"],
    "storage/lines.py": ["tests/storage"],
}
DEPLOY = "deploy/"
KERNEL, SAMPLER, NATIVE = "sampling/kernels/reference.py", "sampling/sampler.py", "sampling/kernels/native.py"


@dataclass(frozen=True)
class Fault:
    """One broken line: in ``file``, ``old`` becomes ``new``."""

    label: str
    file: str
    old: str
    new: str


FAULTS = [
    Fault("noise without sqrt 2", KERNEL, "(2.0 * step.step_size /", "(1.0 * step.step_size /"),
    Fault("noise without temperature", KERNEL, "step.step_size / step.tau)", "step.step_size)"),
    Fault("noise with G instead of sqrt G", KERNEL, ".div_(inverse_metric.sqrt_())", ".div_(inverse_metric)"),
    Fault(
        "noise without G", KERNEL, "if block.v is None else (noise * scale).div_", "if True else (noise * scale).div_"
    ),
    Fault(
        "drift without G",
        KERNEL,
        "_add_quotient(moved, u, inverse_metric,",
        "_add_quotient(moved, u, inverse_metric**0,",
    ),
    Fault(
        "ascent of the potential",
        KERNEL,
        "_add_scaled(moved, u, -step_size)",
        "_add_scaled(moved, u, step_size)",
    ),
    Fault(
        "swapped weights of V",
        KERNEL,
        "_add_product(block.v.mul_(alpha), u, u, 1.0 - alpha)",
        "_add_product(block.v.mul_(1.0 - alpha), u, u, alpha)",
    ),
    Fault("V starts from zero", KERNEL, "0.0 if step.first else step.alpha", "step.alpha"),
    Fault("V of the likelihood alone", KERNEL, "_add_product(block.v", "u = u - block.beta; _add_product(block.v"),
    Fault("eta inside the root", KERNEL, "root = block.v.sqrt()", "root = (block.v + step.eta).sqrt()"),
    Fault(
        "rho from the old beta",
        KERNEL,
        "    drift, noise = _move(block, step, z)\n",
        "    old = block.beta.clone()\n    drift, noise = _move(block, step, z)\n    block.beta = old\n",
    ),
    Fault("kappa never follows rho", KERNEL, "    block.s.mul_(1.0 - step.omega).add_(block.rho * step.omega)\n", ""),
    Fault(
        "kappa from the odds, not from rho",
        KERNEL,
        "block.s.mul_(1.0 - step.omega).add_(block.rho * step.omega)",
        "block.s.copy_(block.rho)",
    ),
    Fault("Gamma with the wrong sign", KERNEL, "moved.add_(correction * step", "moved.sub_(correction * step"),
    Fault("Gamma not divided by tau", KERNEL, "correction.div_(step.tau)", "correction.div_(1.0)"),
    Fault("Gamma without the prior", KERNEL, "block.curvature + block.prior.precision", "block.curvature"),
    Fault(
        "mask not applied", KERNEL, "vector.masked_fill_(~block.keep, 0.0)", "vector.masked_fill_(~block.keep, 1e-9)"
    ),
    Fault("native: noise without sqrt 2", NATIVE, "math.sqrt(2.0 * step.step_size", "math.sqrt(1.0 * step.step_size"),
    Fault("native: V starts from zero", NATIVE, "memory = 0.0 if step.first else", "memory ="),
    Fault("native: Gamma not divided by tau", NATIVE, "real(1.0 / step.tau)", "real(1.0)"),
    Fault("native: mask not applied", NATIVE, "b, move, drift, kick = zero, zero,", "move, drift, kick = zero,"),
    Fault("native: blocks share their noise", NATIVE, "normals(key, k, (start + low) // 2", "normals(key, k, low // 2"),
    Fault("native: pairs begin at the wrong half", NATIVE, "odd = start % 2", "odd = 0"),
    Fault(
        "native: cancellation near u = 1", "sampling/kernels/native_noise.py", "if exponent == 0:", "if exponent == 1:"
    ),
    Fault("native: rounding in exp", NATIVE, "- n * LOG_2_LOW", ""),
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
        "short vectors repeat over steps",
        "sampling/noise.py",
        "ahead + _signed(first)",
        "ahead * 0 + _signed(first)",
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
    Fault("damaged files accepted", "storage/artefact.py", "(self.files or {}).get(name) != digest", "False"),
    Fault(
        "damaged manifests accepted", "storage/artefact.py", '"sha256") != sha256(canonical(found))', '"sha256") == ""'
    ),
    Fault("other settings accepted", "storage/artefact.py", "canonical(old) != canonical(new)", "False"),
    Fault("damaged lines accepted", "storage/lines.py", '"crc") != _checksum(record)', '"crc") is None'),
    Fault("one data set made by two", "problems/darcy/datasets.py", "    with locked(folder):", "    if True:"),
    Fault("one bank written by two", "posterior/store.py", "Hold.of(self.folder)", "None"),
    Fault("checkpoint written in place", "storage/checkpoint.py", 'f"{TEMPORARY}{final.name}"', "f'{final.name}'"),
    Fault("random state not restored", "sampling/training.py", "self._set_random_state(self.rng)", "pass"),
    Fault("history not cut back", "storage/runs.py", "os.truncate(self._history, length)", "pass"),
    Fault("the same order every epoch", "sampling/batches.py", "* 1_000_000_007 + self.epoch", "* 1_000_000_007"),
    Fault(
        "samples of equal weight",
        "posterior/bank.py",
        '"weight": info.step_size,',
        '"weight": 1.0,',
    ),
    Fault(
        "a damaged sample accepted",
        "posterior/encoding.py",
        "canonical(facts))) != crc",
        "canonical(facts))) != crc and False",
    ),
    Fault(
        "differences without their scale",
        "posterior/encoding.py",
        "    _scale(difference, exponent)",
        "    pass",
    ),
    Fault(
        "half a bank forgotten by the budget",
        "posterior/thinning.py",
        "(step - self.offset) % self.spacing",
        "step % self.spacing",
    ),
    Fault(
        "a base left behind by rewinding",
        "posterior/bank.py",
        'for kind in ("sample", "base"):',
        'for kind in ("sample",):',
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
        "x-edges in VTK's wrong order",
        "problems/darcy/vtk.py",
        "np.zeros(grid.shape)], axis=-1)",
        "np.zeros(grid.shape)])",
    ),
    Fault("a test set that sets its own scale", "problems/darcy/tensors.py", 'if split != "train":', "if False:"),
    Fault(
        "imported samples not checked",
        "problems/darcy/imported.py",
        "check_permeabilities(self.kappa, self.grid)",
        "pass",
    ),
    Fault("never a logarithm", "problems/darcy/tensors.py", "log = skewness > 1 and", "log = skewness > 1e9 and"),
    Fault(
        "logarithm not taken",
        "problems/darcy/tensors.py",
        "torch.where(self.kappa_log > 0, kappa.log(), kappa)",
        "kappa",
    ),
    Fault(
        "mass matrix without its neighbours",
        "problems/darcy/conservation.py",
        "(shared.T @ shared +",
        "(np.diag(shared.sum(0)) +",
    ),
    Fault(
        "no gradient of the input",
        "problems/darcy/layers.py",
        "if ctx.needs_input_grad[0] else None",
        "if False else None",
    ),
    Fault(
        "closed sides stay open", "problems/darcy/conservation.py", "x * self.open_x, y * self.open_y[:, None]", "x, y"
    ),
    Fault("data out of reach accepted", "problems/darcy/network.py", "if apart > 1e-6:", "if False:"),
    Fault("no correction of the mass balance", "problems/darcy/solver.py", "REFINEMENTS = 4", "REFINEMENTS = 0"),
    Fault(
        "the seed left out of a sample",
        "problems/darcy/datasets.py",
        "SeedSequence([recipe.seed, index])",
        "SeedSequence([index])",
    ),
    Fault("files overwritten silently", "storage/files.py", "(path.exists() and not overwrite)", "False"),
    Fault("half-written files left behind", "storage/files.py", "temporary.unlink(missing_ok=True)", "pass"),
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
    Fault(
        "chains not split",
        "posterior/diagnostics.py",
        "return np.concatenate([chains[:, :half], chains[:, -half:]])",
        "return chains",
    ),
    Fault("momentum with whole steps", KERNEL, "step_size = step.step_size * share", "step_size = step.step_size"),
    Fault("momentum with whole noise", KERNEL, "_add_scaled(moved, noise, share)", "_add_scaled(moved, noise, 1.0)"),
    Fault("native: momentum with whole steps", NATIVE, "c.share * (kick", "(kick"),
    Fault("native: a pruned velocity", NATIVE, "b, move, drift, kick = zero, zero,", "b, drift, kick = zero,"),
    Fault("a cycle without its end", "sampling/schedules.py", "math.ceil(phase) - 1", "math.floor(phase)"),
    Fault("a period that begins late", "sampling/schedules.py", "(step - 1) % self.period + 1", "step % self.period"),
    Fault("noise from the first step on", "surrogates/training.py", "Switch(math.inf,", "Switch(settings.tau,"),
    Fault("burn-in of the first cycle only", "posterior/bank.py", "(info.step - 1) % self.cycle + 1", "info.step"),
    Fault("chains with the same first weights", "surrogates/runs.py", "settings.chain_seed", "settings.seed"),
    Fault("known edges count", "surrogates/calibration.py", "unknown = largest > 1e-6", "unknown = largest >= 0"),
    Fault("dropout not seeded", "surrogates/training.py", "torch.manual_seed(settings.chain_seed)", "pass"),
    Fault("chains with the same noise", "surrogates/training.py", "chain=settings.chain", "chain=0"),
    Fault("one chain's samples only", "surrogates/runs.py", "[chain.bank() for chain in chains]", "[self.bank()]"),
    Fault("a panel of columns left out", DEPLOY + "sparse_kernel.py", "in range(cuts.shape[1] - 1):", "in range(1):"),
    Fault(
        "sums of a row not added up", DEPLOY + "sparse_kernel.py", "for other in others:", "for other in others[1:]:"
    ),
    Fault("a model replaced without asking", DEPLOY + "model_file.py", "overwrite=overwrite", "overwrite=True"),
    Fault("stale weights left behind", DEPLOY + "model_file.py", "stale.unlink()", "pass"),
    Fault("signs lost in packing", DEPLOY + "encoding.py", " | (bits >> 31 << (8 * width - 1))", ""),
    Fault("a row of 65,536 in 16 bits", DEPLOY + "encoding.py", "MAX_COLUMNS = 2**16 - 1", "MAX_COLUMNS = 2**16"),
    Fault("ONNX not compared", DEPLOY + "onnx_file.py", "if not difference <= TOLERANCE * scale:", "if False:"),
]


def run_tests(source, paths):
    """Run tests against the package in ``source``; return (passed, name of the first failing test)."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *paths]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    first = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, flags=re.MULTILINE)
    return result.returncode == 0, first.group(1) if first else result.stdout[-200:]


def try_fault(fault):
    """Apply one fault to a copy of the source and run the tests on it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        # Without compiled code: it would not notice a change in another file.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "sparse_langevin", source / "sparse_langevin", ignore=ignored)
        path = source / "sparse_langevin" / fault.file
        text = path.read_text()
        if text.count(fault.old) < 1:
            return fault, False, f"the line {fault.old!r} is no longer in {fault.file}: update this list"
        path.write_text(text.replace(fault.old, fault.new))
        suite = next((own for start, own in OWN_SUITES.items() if fault.file.startswith(start)), SUITE)
        passed, first = run_tests(source, suite)
        return fault, not passed, first


def main():
    """Try every fault and print which test caught it."""
    wanted = sys.argv[1:]
    faults = [f for f in FAULTS if not wanted or any(word in f.label for word in wanted)]
    passed, first = run_tests(ROOT / "src", SUITE[:9])
    if not passed:
        sys.exit(f"the tests fail without any fault: {first}")
    survivors = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for fault, caught, first in pool.map(try_fault, faults):
            survivors += not caught
            print(f"{'caught  ' if caught else 'SURVIVED'}  {fault.label:40s} {first}", flush=True)
    print(f"{len(faults) - survivors} of {len(faults)} faults caught")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
