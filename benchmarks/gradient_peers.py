"""One step of the stochastic gradient samplers of posteriors and blackjax on a network and a batch of torch's.

Each function returns steps as functions without arguments; the posterior is that of our `sgld` with sigma = 1 and a
standard normal prior, and temperature 1 on the summed log posterior.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Step = Callable[[], object]


def posteriors_steps(model: nn.Module, x: Tensor, y: Tensor, num_data: int, step_size: float) -> dict[str, Step]:
    """SGLD and SGHMC of posteriors, updated in place."""
    import posteriors

    def log_posterior(parameters: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        inputs, targets = batch
        outputs = torch.func.functional_call(model, parameters, inputs)
        prior = sum(p.square().sum() for p in parameters.values())
        fit = (outputs - targets).square().sum() * (num_data / len(inputs))
        return -0.5 * (fit + prior), outputs

    steps: dict[str, Step] = {}
    for name, module in (("SGLD", posteriors.sgmcmc.sgld), ("SGHMC", posteriors.sgmcmc.sghmc)):
        transform = module.build(log_posterior, lr=step_size)
        state = transform.init({k: p.detach().clone() for k, p in model.named_parameters()})
        steps[f"posteriors {name}"] = lambda t=transform, s=state: t.update(s, (x, y), inplace=True)
    return steps


def blackjax_steps(model: nn.Sequential, x: Tensor, y: Tensor, num_data: int, step_size: float) -> dict[str, Step]:
    """SGLD of blackjax, one compiled step per call, for linear layers with tanh between them."""
    import blackjax
    import jax
    import jax.numpy as jnp

    def log_prior(layers):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(layers))

    def log_likelihood(layers, example):
        hidden, target = example
        for weight, bias in layers[:-1]:
            hidden = jnp.tanh(weight @ hidden + bias)
        weight, bias = layers[-1]
        return -0.5 * jnp.sum((weight @ hidden + bias - target) ** 2)

    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    state = [tuple(jnp.asarray(p.detach().numpy()) for p in (layer.weight, layer.bias)) for layer in linear]
    batch = jnp.asarray(x.numpy()), jnp.asarray(y.numpy())
    sampler = blackjax.sgld(blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, num_data))
    key = jax.random.key(0)

    @jax.jit
    def advance(key, state):
        key, now = jax.random.split(key)
        return key, sampler.step(now, state, batch, step_size)

    def step() -> None:
        nonlocal key, state
        key, state = jax.block_until_ready(advance(key, state))

    return {"blackjax SGLD": step}
