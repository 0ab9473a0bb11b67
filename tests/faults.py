"""The seeded faults: each breaks one line of the library, and the tests must notice; ``make mutants`` tries them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One broken line: in ``file``, below the package, ``old`` becomes ``new``."""

    label: str
    file: str
    old: str
    new: str


FAULTS = [
    # storage
    Fault("damaged files accepted", "storage/artefact.py", "(self.files or {}).get(name) != digest", "False"),
    Fault(
        "damaged manifests accepted", "storage/artefact.py", '"sha256") != sha256(canonical(found))', '"sha256") == ""'
    ),
    Fault("other settings accepted", "storage/artefact.py", "canonical(old) != canonical(new)", "False"),
    Fault("damaged lines accepted", "storage/lines.py", '"crc") != _checksum(rest)', '"crc") is None'),
    Fault("checkpoint written in place", "storage/checkpoint.py", 'f"{TEMPORARY}{final.name}"', "f'{final.name}'"),
    Fault("history not cut back", "storage/runs.py", "os.truncate(self._history, length)", "pass"),
    Fault("files overwritten silently", "storage/files.py", "(path.exists() and not overwrite)", "False"),
    Fault("half-written files left behind", "storage/files.py", "temporary.unlink(missing_ok=True)", "pass"),
    Fault("quantiles joined along the wrong dimension", "storage/archive.py", "second=name in second", "second=False"),
    # runtime
    Fault("native: rounding in exp", "runtime/native_math.py", "- n * LOG_2_LOW", ""),
    Fault(
        "a callee's change not noticed",
        "runtime/jit.py",
        "                    waiting.append(value)\n",
        "                    pass\n",
    ),
    # sampling
    Fault(
        "noise without sqrt 2", "sampling/kernels/reference.py", "(2.0 * step.step_size /", "(1.0 * step.step_size /"
    ),
    Fault(
        "noise without temperature", "sampling/kernels/reference.py", "step.step_size / step.tau)", "step.step_size)"
    ),
    Fault("noise with G instead of sqrt G", "sampling/kernels/reference.py", "inverse.sqrt_()", "inverse"),
    Fault(
        "noise without G",
        "sampling/kernels/reference.py",
        "z * scale if root is None else",
        "z * scale if True else",
    ),
    Fault(
        "drift without G",
        "sampling/kernels/reference.py",
        "_add_quotient(beta, u, inverse,",
        "_add_quotient(beta, u, inverse**0,",
    ),
    Fault(
        "ascent of the potential",
        "sampling/kernels/reference.py",
        "_add_scaled(beta, u, -step.step_size)",
        "_add_scaled(beta, u, step.step_size)",
    ),
    Fault(
        "swapped weights of V",
        "sampling/metrics/rmsprop.py",
        "memory, fresh, eta = numbers\n        v = vectors[0]",
        "fresh, memory, eta = numbers\n        v = vectors[0]",
    ),
    Fault("V starts from zero", "sampling/metrics/rmsprop.py", "if step == 1:", "if step == 0:"),
    Fault(
        "V of the likelihood alone",
        "sampling/kernels/reference.py",
        "    inverse = block.metric.inverse(u, block",
        "    inverse = block.metric.inverse(u - beta, block",
    ),
    Fault("eta inside the root", "sampling/metrics/rmsprop.py", "return v.sqrt() + eta", "return (v + eta).sqrt()"),
    Fault("native: eta inside the root", "sampling/metrics/rmsprop.py", "np.sqrt(v) + eta", "np.sqrt(v + eta)"),
    Fault(
        "native: swapped weights of V",
        "sampling/metrics/rmsprop.py",
        "v = memory * state[0] + fresh * (u * u)",
        "v = fresh * state[0] + memory * (u * u)",
    ),
    Fault(
        "rho from the old beta",
        "sampling/kernels/reference.py",
        "    drift, noise = _move(block, u, step, z)\n",
        "    old = block.beta.clone()\n    drift, noise = _move(block, u, step, z)\n    block.beta = old\n",
    ),
    Fault(
        "kappa never follows rho",
        "sampling/priors/spike_slab.py",
        "        s.mul_(1.0 - omega).add_(rho * omega)\n",
        "",
    ),
    Fault(
        "native: kappa never follows rho", "sampling/priors/spike_slab.py", "        s = old * s + omega * rho\n", ""
    ),
    Fault(
        "kappa from the odds, not from rho",
        "sampling/priors/spike_slab.py",
        "s.mul_(1.0 - omega).add_(rho * omega)",
        "s.copy_(rho)",
    ),
    Fault(
        "Gamma with the wrong sign",
        "sampling/kernels/reference.py",
        "beta.add_(correction * step",
        "beta.sub_(correction * step",
    ),
    Fault(
        "Gamma not divided by tau", "sampling/kernels/reference.py", "correction.div_(step.tau)", "correction.div_(1.0)"
    ),
    Fault(
        "Gamma without the prior",
        "sampling/kernels/reference.py",
        "block.curvature + block.prior.curvature(beta, block.latent, block.numbers)",
        "block.curvature",
    ),
    Fault(
        "native: Gamma without the prior",
        "sampling/kernels/native.py",
        "bend += prior_curvature(b, latent, c.prior)",
        "bend += zero",
    ),
    Fault(
        "mask not applied",
        "sampling/kernels/reference.py",
        "vector.masked_fill_(~block.keep, 0.0)",
        "vector.masked_fill_(~block.keep, 1e-9)",
    ),
    Fault(
        "momentum with steps of another length",
        "sampling/kernels/reference.py",
        "step.step_size * (1.0 - c) / (1.0 + c)",
        "step.step_size * (1.0 - c)",
    ),
    Fault(
        "momentum with too much noise",
        "sampling/kernels/reference.py",
        "((1.0 - c * c) / step.tau) ** 0.5",
        "((1.0 - c) / step.tau) ** 0.5",
    ),
    Fault(
        "momentum whose noise moves the weights too late",
        "sampling/kernels/reference.py",
        "block.beta.add_(moved.add_(velocity) * (0.5 * width))",
        "block.beta.add_(moved * width)",
    ),
    Fault(
        "velocity with the metric for its root",
        "sampling/kernels/reference.py",
        "width = time if root is None else time / root",
        "width = time if root is None else time / root.square()",
    ),
    Fault(
        "native: noise without sqrt 2",
        "sampling/kernels/native.py",
        "math.sqrt(2.0 * step.step_size",
        "math.sqrt(1.0 * step.step_size",
    ),
    Fault(
        "native: the wrong function for a prior",
        "sampling/kernels/native.py",
        "u += prior_gradient(b, latent, c.prior)",
        "u += prior_curvature(b, latent, c.prior)",
    ),
    Fault("native: Gamma not divided by tau", "sampling/kernels/native.py", "real(1.0 / step.tau)", "real(1.0)"),
    Fault(
        "native: mask not applied",
        "sampling/kernels/native.py",
        "b, move, kick = zero, zero, zero",
        "move, kick = zero, zero",
    ),
    Fault(
        "native: blocks share their noise",
        "sampling/kernels/native.py",
        "normals(key, k, (start + low) // 2",
        "normals(key, k, low // 2",
    ),
    Fault("native: pairs begin at the wrong half", "sampling/kernels/native.py", "odd = start % 2", "odd = 0"),
    Fault(
        "native: momentum without friction",
        "sampling/kernels/native.py",
        "move = c.momentum * move + c.heat * random",
        "move = move + c.heat * random",
    ),
    Fault(
        "native: momentum with half a step",
        "sampling/kernels/native.py",
        "b += c.half * width * (half + move)",
        "b += c.half * width * move",
    ),
    Fault(
        "native: momentum that ignores tau",
        "sampling/kernels/native.py",
        "step.momentum) / step.tau)",
        "step.momentum))",
    ),
    Fault(
        "V that never stops",
        "sampling/metrics/rmsprop.py",
        "return _Numbers(1.0, 0.0",
        "return _Numbers(alpha, 1.0 - alpha",
    ),
    Fault(
        "V forgets how it started",
        "sampling/metrics/rmsprop.py",
        "return _Numbers(1.0, 1.0",
        "return _Numbers(0.0, 1.0",
    ),
    Fault(
        "V starts without the curvature",
        "sampling/metrics/rmsprop.py",
        "torch.maximum(vectors[0], expected, out=vectors[0])",
        "torch.maximum(vectors[0], expected)",
    ),
    Fault(
        "the metric expects gradients of temperature 1",
        "sampling/curvature.py",
        "prior_curvature(state)) / tau",
        "prior_curvature(state))",
    ),
    Fault(
        "curvature without the step of its differences",
        "sampling/curvature.py",
        "((gradient() - here) / shift).square()",
        "(gradient() - here).square()",
    ),
    Fault(
        "probes that add up",
        "sampling/curvature.py",
        "                flat.vector.copy_(origin)\n    finally",
        "    finally",
    ),
    Fault(
        "control variates that add noise",
        "sampling/control_variates.py",
        '"] - self._flat.grad',
        '"] + self._flat.grad',
    ),
    Fault("an anchor that weighs batches alike", "sampling/control_variates.py", "alpha=float(count)", "alpha=1.0"),
    Fault(
        "the weights stay at the anchor",
        "sampling/control_variates.py",
        "            vector.copy_(here)\n",
        "            pass\n",
    ),
    Fault("advice without the noise of batches", "sampling/step_size.py", '1.0 / limits["noise"]', "0.0"),
    Fault("advice that ignores tau", "sampling/step_size.py", "(tau * noise) if noise", "noise if noise"),
    Fault("advice without the metric", "sampling/step_size.py", "chosen, metric.sqrt())", "chosen, metric**0)"),
    Fault(
        "gamma summed out of the weights before the last step",
        "sampling/priors/spike_slab.py",
        "            s.copy_(self.inclusion(beta, numbers))\n            rho.add_((s - rho) * numbers[3])\n",
        "            rho.add_((s - rho) * numbers[3])\n            s.copy_(self.inclusion(beta, numbers))\n",
    ),
    Fault(
        "native: rho of summed latents is the last r",
        "sampling/priors/spike_slab.py",
        "(rho + rate * (r - rho), r)",
        "(r, r)",
    ),
    Fault(
        "rho does not forget the beginning", "sampling/priors/spike_slab.py", "4.0 / (scalars.get", "1.0 / (scalars.get"
    ),
    Fault(
        "the fan-in of the wrong side", "sampling/priors/spike_slab.py", "math.prod(shape[1:])", "math.prod(shape[:1])"
    ),
    Fault("delta is never held", "sampling/priors/spike_slab.py", '["steps"] <= self.hold', '["steps"] < 0'),
    Fault(
        "weights with a scale of their own in the equation for sigma",
        "sampling/priors/spike_slab.py",
        "else (1.0, math.inf, math.inf)",
        "else (1.0, self.v0, self.v1)",
    ),
    Fault(
        "sigma starts from a sum",
        "sampling/likelihoods/gaussian.py",
        "self.evaluate(model, batch, 1.0).loss",
        "self.evaluate(model, batch, 1.0).rss",
    ),
    Fault(
        "networks with the prior of linear models",
        "sampling/priors/spike_slab.py",
        "SpikeSlab() if sparse_layers == 1 else SpikeSlab.for_network()",
        "SpikeSlab()",
    ),
    Fault("a warm chain passes", "sampling/health.py", "HOT = 1.21", "HOT = 12.1"),
    Fault("the temperature ignores tau", "sampling/health.py", "+= tau * float(", "+= float("),
    Fault(
        "native: a pruned velocity",
        "sampling/kernels/native.py",
        "b, move, kick = zero, zero, zero",
        "b, kick = zero, zero",
    ),
    Fault(
        "native: a pruned drift",
        "sampling/kernels/native.py",
        "                drift = zero  # only here",
        "                drift = drift  # only here",
    ),
    Fault(
        "native: cancellation near u = 1", "sampling/kernels/native_noise.py", "if exponent == 0:", "if exponent == 1:"
    ),
    Fault("no N/n", "sampling/gradients.py", "return self._num_data / examples", "return 1.0"),
    Fault("no N/n in sigma", "sampling/sampler.py", "rss=scale * float", "rss=float"),
    Fault(
        "residuals counted as N",
        "sampling/sampler.py",
        "self.num_data * evaluation.residuals_per_example",
        "self.num_data",
    ),
    Fault(
        "pruned weights counted in sigma",
        "sampling/sampler.py",
        "sizes = self._sizes | self._kept if",
        "sizes = self._sizes if",
    ),
    Fault(
        "priors that have no part in sigma counted",
        "sampling/sampler.py",
        "if self._priors[name].scales_with_sigma]",
        "]",
    ),
    Fault("the same noise every step", "sampling/sampler.py", "self._noise, k)", "self._noise, 1)"),
    Fault(
        "delta jumps",
        "sampling/priors/spike_slab.py",
        "(1.0 - omega) * delta + omega * self.delta_target(included, size, delta)",
        "self.delta_target(included, size, delta)",
    ),
    Fault("sigma jumps", "sampling/sampler.py", "(1.0 - omega) * self.sigma + omega * target", "target"),
    Fault("chains share their noise", "sampling/noise.py", "stream=2 * chain + kind", "stream=kind"),
    Fault(
        "steps not counted after a failure",
        "sampling/sampler.py",
        "k = self.steps + 1",
        "k = self.steps = self.steps + 1",
    ),
    Fault("sign of B in the quadratic", "sampling/mixture.py", "return (b + math.sqrt", "return (-b + math.sqrt"),
    Fault(
        "likelihood without the half",
        "sampling/likelihoods/gaussian.py",
        "rss * (-0.5 / sigma**2)",
        "rss * (-1.0 / sigma**2)",
    ),
    Fault(
        "likelihood with sigma, not sigma^2",
        "sampling/likelihoods/gaussian.py",
        "rss * (-0.5 / sigma**2)",
        "rss * (-0.5 / sigma)",
    ),
    Fault(
        "nu left out of sigma",
        "sampling/likelihoods/gaussian.py",
        "residuals + weights + self.nu,",
        "residuals + weights,",
    ),
    Fault(
        "no sigma in the Laplace gradient",
        "sampling/priors/spike_slab.py",
        "_Numbers(1.0 / (self.v0 * sigma),",
        "_Numbers(1.0 / self.v0,",
    ),
    Fault(
        "no sigma^2 in the slab gradient",
        "sampling/priors/spike_slab.py",
        "1.0 / (self.v1 * (sigma * sigma))",
        "1.0 / self.v1",
    ),
    Fault(
        "swapped spike and slab",
        "sampling/priors/spike_slab.py",
        "log_odds = beta.abs().mul_(spike)",
        "log_odds = beta.abs().mul_(-spike)",
    ),
    Fault("odds without delta", "sampling/priors/spike_slab.py", "+ math.log(max(delta, tiny)) - ", "+ 0.0 * delta - "),
    Fault(
        "the printed norm of kappa1*beta",
        "sampling/priors/spike_slab.py",
        "torch.dot(s, beta.square())",
        "torch.dot(s * s, beta.square())",
    ),
    Fault(
        "delta's mode for its mean",
        "sampling/priors/spike_slab.py",
        'self.delta_update == "mean"',
        'self.delta_update == "none"',
    ),
    Fault("pairs share one normal number", "sampling/noise.py", "radius * angle.sin()", "radius * angle.cos()"),
    Fault(
        "short vectors repeat over steps", "sampling/noise.py", "ahead + _signed(first)", "ahead * 0 + _signed(first)"
    ),
    Fault("half the angles", "sampling/noise.py", "2.0**-32 * 2.0 * math.pi", "2.0**-32 * math.pi"),
    Fault("one round too few", "sampling/noise.py", "in range(ROUNDS)", "in range(ROUNDS - 1)"),
    Fault("largest weights pruned", "sampling/pruning/criteria.py", "return beta.abs()", "return -beta.abs()"),
    Fault("ties prune too many", "sampling/pruning/plan.py", "tied[: count - int(chosen.sum())]", "tied"),
    Fault(
        "zeros not held",
        "sampling/pruning/plan.py",
        "return not self.regrow or step > self.end",
        "return step > self.end",
    ),
    Fault(
        "target missed at the end",
        "sampling/pruning/plan.py",
        "return step == self.end or (",
        "return (step == -1) or (",
    ),
    Fault("omega above 1 not capped", "sampling/health.py", "if not initial > 1:", "if True:"),
    Fault("random state not restored", "sampling/loop.py", "self._set_random_state(self.rng)", "pass"),
    Fault("the same order every epoch", "sampling/batches.py", "* 1_000_000_007 + self.epoch", "* 1_000_000_007"),
    Fault("a cycle without its end", "sampling/schedules.py", "math.ceil(phase) - 1", "math.floor(phase)"),
    Fault("a period that begins late", "sampling/schedules.py", "(step - 1) % self.period + 1", "step % self.period"),
    Fault(
        "logits with noise added",
        "sampling/sampler.py",
        'if getattr(self.likelihood, "additive_noise", False) else 0.0',
        "if True else 0.0",
    ),
    Fault("attention weights left dense", "sampling/flat.py", "for name in PROJECTIONS]", "for name in ()]"),
    Fault("BatchNorm of the last batch alone", "sampling/batch_norm.py", "= True, None", "= True, 1.0"),
    Fault(
        "BatchNorm with statistics of other weights",
        "sampling/batch_norm.py",
        "{**parameters, **buffers}",
        "dict(buffers)",
    ),
    Fault("BatchNorm spoiled by a bad batch", "sampling/batch_norm.py", "buffer.copy_(value)", "pass"),
    Fault("BatchNorm thawed within a chain", "sampling/batch_norm.py", "if layer.training != training:", "if False:"),
    Fault("a cycle that goes on beyond its end", "sampling/schedules.py", "step > self.period * self.cycles", "False"),
    Fault("chains that begin alike", "sampling/chain_worker.py", "torch.manual_seed(chain)", "torch.manual_seed(0)"),
    Fault("a number of another chain", "sampling/chain_worker.py", "if sampler.chain != chain:", "if False:"),
    Fault("rho of the surest chain", "sampling/chains.py", "self.inclusions]).mean(0)", "self.inclusions]).amax(0)"),
    Fault("only neighbours compared", "sampling/agreement.py", "rho.amax(0) - rho.amin(0)", "(rho[0] - rho[1]).abs()"),
    Fault("disagreement not said", "sampling/agreement.py", "<= limit", "<= 1"),
    # posterior
    Fault("one bank written by two", "posterior/store.py", "Hold.of(self.folder)", "None"),
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
        "canonical(facts))) != crc",
        "canonical(facts))) != crc and False",
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
        "bins of equal weight in the ECE",
        "posterior/classification.py",
        "np.nansum(self.share * gap)",
        "np.nanmean(gap)",
    ),
    Fault("Brier score per class", "posterior/classification.py", "(error**2).sum(1).mean()", "(error**2).mean()"),
    Fault("Brier score without the label", "posterior/classification.py", "y] -= 1.0", "y] -= 0.0"),
    Fault("NLL of the largest probability", "posterior/classification.py", "p[np.arange(len(y)), y], S", "p.max(1), S"),
    Fault(
        "entropy over the examples", "posterior/classification.py", "(probabilities)).sum(1)", "(probabilities)).sum(0)"
    ),
    Fault(
        "entropy in bits",
        "posterior/classification.py",
        "(probabilities)).sum(1)",
        "(probabilities)).sum(1) / np.log(2)",
    ),
    Fault(
        "mutual information without the samples' entropies",
        "posterior/classification.py",
        "np.tensordot(share, p, 1)) - expected",
        "np.tensordot(share, p, 1)) - 0 * expected",
    ),
    Fault("AUROC with ties in their order", "posterior/classification.py", 'method="average"', 'method="ordinal"'),
    Fault(
        "classes: all of the entropy due to the parameters",
        "posterior/probabilities.py",
        "(whole - expected / total)",
        "(whole - 0 * expected / total)",
    ),
    Fault(
        "classes: entropies of equal weight",
        "posterior/probabilities.py",
        "expected + sample.weight * torch",
        "expected + torch",
    ),
    Fault(
        "weights of samples ignored in predictions",
        "posterior/predictive.py",
        "mean += change * (sample.weight / total)",
        "mean += change / count",
    ),
    Fault("BatchNorm of the path in predictions", "posterior/predictive.py", "if not sample.batch_norms:", "if True:"),
    Fault("BatchNorm forgotten by the bank", "posterior/reading.py", 'facts.get("batch_norms", ())', "()"),
    Fault(
        "chains not split",
        "posterior/diagnostics.py",
        "return np.concatenate([chains[:, :half], chains[:, -half:]])",
        "return chains",
    ),
    Fault(
        "Monte Carlo error without weights",
        "posterior/effective.py",
        "return draws if weights is None else weights * (draws",
        "return draws if weights is None else 1.0 * (draws",
    ),
    Fault("effective draws without Kish's factor", "posterior/effective.py", "float(draws * kish)", "float(draws)"),
    Fault(
        "weighted autocovariance without weights",
        "posterior/effective.py",
        "lagged_products(weights * (chains - means[:, None]))",
        "lagged_products(chains - means[:, None])",
    ),
    Fault("unequal parts counted alike", "posterior/effective.py", "spread / freedom * overlap", "spread * overlap"),
    Fault(
        "between chains at all lags alike",
        "posterior/effective.py",
        "rho += between / pooled * (overlap / overlap[0] - 1)",
        "pass",
    ),
    Fault(
        "verdict without weights",
        "posterior/diagnostics.py",
        "traces.weights if isinstance(traces, Traces) else None",
        "None",
    ),
    Fault(
        "samples of two samplers mixed",
        "posterior/bank.py",
        "if any(place.step >= step for place in taken if place.chain == sampler.chain):",
        "if False:",
    ),
    Fault("chains thinned differently", "posterior/merging.py", "max(grids, key", "min(grids, key"),
    Fault("samples of another run joined", "posterior/merging.py", "return False", "return True"),
    Fault("budget not divided", "posterior/bank.py", "max(1, self.budget // chains)", "self.budget"),
    # linear
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
    Fault("Langevin noise of classes too small", "linear/logistic.py", "math.sqrt(2.0 * e)", "math.sqrt(1.0 * e)"),
    Fault("corrected steps with too little noise", "linear/logistic.py", "np.sqrt(2.0 * size)", "np.sqrt(1.0 * size)"),
    Fault("minibatches of the first rows", "linear/logistic.py", "j = i + np.random.randint(len(order) - i)", "j = i"),
    Fault("the factor N/n left out for classes", "linear/likelihood.py", "data.x.shape[0] / len(chosen)", "1.0"),
    # deploy
    Fault("a panel of columns left out", "deploy/sparse_kernel.py", "in range(cuts.shape[1] - 1):", "in range(1):"),
    Fault("sums of a row not added up", "deploy/sparse_kernel.py", "for other in others:", "for other in others[1:]:"),
    Fault("a model replaced without asking", "deploy/model_file.py", "overwrite=overwrite", "overwrite=True"),
    Fault("stale weights left behind", "deploy/model_file.py", "stale.unlink()", "pass"),
    Fault("signs lost in packing", "deploy/encoding.py", " | (bits >> 31 << (8 * width - 1))", ""),
    Fault("a row of 65,536 in 16 bits", "deploy/encoding.py", "MAX_COLUMNS = 2**16 - 1", "MAX_COLUMNS = 2**16"),
    Fault("ONNX not compared", "deploy/onnx_file.py", "if not difference <= TOLERANCE * scale:", "if False:"),
    # surrogates
    Fault("noise from the first step on", "surrogates/training.py", "Switch(math.inf,", "Switch(settings.tau,"),
    Fault("dropout not seeded", "surrogates/training.py", "torch.manual_seed(settings.chain_seed)", "pass"),
    Fault("chains with the same noise", "surrogates/training.py", "chain=settings.chain", "chain=0"),
    Fault("chains with the same first weights", "surrogates/surrogate.py", "settings.chain_seed", "settings.seed"),
    Fault("the worst input counted in its piece", "surrogates/ranges.py", "rows.start + row", "row"),
    Fault("pieces that cut a call in two", "surrogates/prediction.py", "rows = BATCH * max(1, ", "rows = max(7, "),
    Fault("one chain's samples only", "surrogates/runs.py", "[chain.bank() for chain in chains]", "[self.bank()]"),
    Fault("known edges count", "surrogates/calibration.py", "unknown = largest > 1e-6", "unknown = largest >= 0"),
    Fault(
        "code run because a file says so",
        "surrogates/networks.py",
        "elif not trust and not module.startswith(OURS):",
        "elif False:",
    ),
    Fault(
        "kappa rounded before its mean is subtracted",
        "surrogates/surrogate.py",
        "torch.from_numpy(np.asarray(inputs)).to(self.device)).float()",
        "torch.from_numpy(np.asarray(inputs)).float().to(self.device)).float()",
    ),
    Fault(
        "rivals kept whatever their version",
        "surrogates/evaluation.py",
        "for name, value in key.items()",
        "for name, value in [*key.items()][:1]",
    ),
    # problems
    Fault("one data set made by two", "problems/darcy/datasets.py", "    with locked(folder):", "    if True:"),
    Fault(
        "x-edges in VTK's wrong order",
        "problems/vtk.py",
        "np.zeros(grid)], axis=-1)",
        "np.zeros(grid)])",
    ),
    Fault("a test set that sets its own scale", "problems/darcy/tensors.py", 'if split != "train":', "if False:"),
    Fault("never a logarithm", "problems/darcy/codec.py", "log = skewness > 1 and", "log = skewness > 1e9 and"),
    Fault(
        "logarithm not taken",
        "problems/darcy/codec.py",
        "torch.where(self.kappa_log > 0, inputs.log(), inputs)",
        "inputs",
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
    Fault("fields counted in their piece", "problems/darcy/solver.py", "enumerate(kappa, first)", "enumerate(kappa)"),
    Fault("no correction of the mass balance", "problems/darcy/solver.py", "REFINEMENTS = 4", "REFINEMENTS = 0"),
    Fault(
        "the seed left out of a sample",
        "problems/darcy/datasets.py",
        "SeedSequence([recipe.seed, index])",
        "SeedSequence([index])",
    ),
    Fault(
        "sides left out of first order",
        "problems/darcy/problem.py",
        "usual_velocity, self.flow.closed)",
        "usual_velocity)",
    ),
    # studies
    Fault(
        "exchanged records accepted", "studies/regression.py", '(record["test"], record["replicate"]) != cell', "False"
    ),
]
