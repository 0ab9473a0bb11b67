"""A network with the codec of its training data: physical inputs in, physical outputs out."""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.surrogates.codec import Codec
from sparse_langevin.surrogates.networks import make_network
from sparse_langevin.surrogates.problem import Array, Problem
from sparse_langevin.surrogates.settings import Settings

BATCH = 100  # examples in one call of a network: memory grows with them


class Surrogate(nn.Module):
    """A network between two maps.

    Parameters
    ----------
    network
        Maps what the codec makes of inputs to normalised outputs.
    problem
        What it is a surrogate of.
    codec
        The maps; its buffers are saved with the weights.
    """

    def __init__(self, network: nn.Module, problem: Problem, codec: Codec) -> None:
        super().__init__()
        self.network, self.problem, self.codec = network, problem, codec

    def forward(self, encoded: Tensor) -> Tensor:
        """Normalised in, normalised out, one row per example: what is trained."""
        output: Tensor = self.network(encoded)
        return output.flatten(1) if isinstance(output, Tensor) and output.dim() > 2 else output

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device

    def encode(self, inputs: Array) -> Tensor:
        """What the network sees, in its precision and on its device; rounded after it is encoded."""
        self.problem.check(inputs)
        return self.codec.encode(torch.from_numpy(np.asarray(inputs)).to(self.device)).float()

    def decode(self, normalised: Tensor) -> Tensor:
        """Outputs in physical units, up to the codec's offset."""
        return self.codec.decode(normalised)

    def offset(self, inputs: Array) -> Tensor | None:
        """What is known of the outputs without the network, on the CPU."""
        known = self.codec.offset(torch.from_numpy(np.asarray(inputs)).to(self.device))
        return None if known is None else known.cpu()

    @torch.no_grad()
    def predict(self, inputs: Array) -> Tensor:
        """Outputs of these inputs, both in physical units, on the CPU."""
        parts = torch.split(self.encode(inputs), BATCH)
        outputs = torch.cat([self.decode(self(part)) for part in parts]).cpu()
        known = self.offset(inputs)
        return outputs if known is None else outputs + known


def empty_surrogate(settings: Settings, problem: Problem, *, trust: bool = False) -> Surrogate:
    """A network with its first weights, and a codec that is to be fitted or filled in."""
    codec = problem.codec()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.chain_seed)
        network = make_network(settings.network, problem, settings.network_options, trust=trust)
        if any(isinstance(parameter, UninitializedParameter) for parameter in network.parameters()):
            example = torch.ones(2, *problem.input_shape, dtype=torch.float64)
            with evaluating(network):  # lazy layers take their shapes from what they see first
                network(codec.encode(example).float())
    return Surrogate(network, problem, codec)


def outputs_of(problem: Problem) -> int:
    """How many numbers an answer has."""
    return math.prod(problem.output_shape)


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of that name, if torch can use it here; torch's default if None."""
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise ValueError(f"torch cannot use the device {str(name)!r} on this machine: {reason}") from error
