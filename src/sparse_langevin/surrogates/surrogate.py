"""A network with the codec of its training data, from physical inputs to physical outputs."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import UninitializedParameter

from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.storage.foreign import require_modest
from sparse_langevin.surrogates.codec import Codec
from sparse_langevin.surrogates.networks import make_network
from sparse_langevin.surrogates.problem import Array, Problem
from sparse_langevin.surrogates.settings import Settings

BATCH = 100  # examples in one call of a network, which limits its memory


class Surrogate(nn.Module):
    """A network between the two maps of a codec.

    Parameters
    ----------
    network
        Maps encoded inputs to normalised outputs.
    problem
        The problem that it is a surrogate of.
    codec
        Encodes inputs and decodes outputs; its buffers are saved with the weights.
    """

    def __init__(self, network: nn.Module, problem: Problem, codec: Codec) -> None:
        super().__init__()
        self.network, self.problem, self.codec = network, problem, codec

    def forward(self, encoded: Tensor) -> Tensor:
        """Encoded inputs to normalised outputs, one row per example: the map that is trained."""
        output: Tensor = self.network(encoded)
        return output.flatten(1) if isinstance(output, Tensor) and output.dim() > 2 else output

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.parameters()).device

    def encode(self, inputs: Array) -> Tensor:
        """Inputs of the network, on its device; rounded to its precision after they are encoded."""
        self.problem.check(inputs)
        return self.codec.encode(torch.from_numpy(np.asarray(inputs)).to(self.device)).float()

    def decode(self, normalised: Tensor) -> Tensor:
        """Outputs in physical units, without the codec's offset."""
        return self.codec.decode(normalised)

    def offset(self, inputs: Array) -> Tensor | None:
        """The codec's offset for these inputs, on the CPU; None if there is none."""
        known = self.codec.offset(torch.from_numpy(np.asarray(inputs)).to(self.device))
        return None if known is None else known.cpu()

    @torch.no_grad()
    def predict(self, inputs: Array) -> Tensor:
        """Predict the outputs for these inputs, both in physical units; the result is on the CPU."""
        parts = torch.split(self.encode(inputs), BATCH)
        outputs = torch.cat([self.decode(self(part)) for part in parts]).cpu()
        known = self.offset(inputs)
        return outputs if known is None else outputs + known


def empty_surrogate(settings: Settings, problem: Problem, *, trust: bool = False) -> Surrogate:
    """A network with its initial weights, and a codec to be fitted or loaded."""
    codec = problem.codec()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.chain_seed)
        network = make_network(settings.network, problem, settings.network_options, trust=trust)
        if any(isinstance(parameter, UninitializedParameter) for parameter in network.parameters()):
            example = torch.ones(2, *problem.input_shape, dtype=torch.float64)
            with evaluating(network):  # lazy layers take their shapes from their first input
                network(codec.encode(example).float())
    return Surrogate(network, problem, codec)


def require_outline(
    settings: Settings, problem: Problem, held: Mapping[str, Sequence[int]], *, trust: bool = False
) -> None:
    """Raise unless a surrogate has the tensors of these names and shapes, before any memory is taken for it.

    Settings in somebody's folder may describe a network that no memory holds. So it is made on torch's meta device,
    where numbers take no space, and no further than to the size of what is held.

    Raises
    ------
    ValueError
        If the network cannot be made, or is larger than what is held.
    RuntimeError
        If names or shapes differ, see ``load_state_dict``.
    """
    stored = sum(math.prod(shape) for shape in held.values())
    room = 10 * stored + 1000  # some networks make parameters that they replace, such as tied ones

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal room
        room -= 0 if isinstance(parameter, UninitializedParameter) else parameter.numel()
        if room < 0:
            raise _TooLargeError(f"the network has more parameters than are stored: {settings.network_options}")

    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):
            outline = empty_surrogate(settings, problem, trust=trust)
            outline.load_state_dict({name: torch.empty(tuple(shape)) for name, shape in held.items()})
    except _TooLargeError:
        raise
    except Exception:
        if not trust:  # the user's own network need not work on this device
            raise
        return
    finally:
        hook.remove()
    everything = sum(tensor.nbytes for tensor in (*outline.parameters(), *outline.buffers()))
    require_modest(everything, 4 * stored)


class _TooLargeError(ValueError):
    """A network is larger than what is stored of it."""


def outputs_of(problem: Problem) -> int:
    """Number of outputs of one example."""
    return math.prod(problem.output_shape)


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of that name, torch's default if None; raise if torch cannot use it here."""
    try:
        place = torch.zeros((), device=name)
        float(place)  # the device "meta" has no numbers
        return place.device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise ValueError(f"torch cannot use the device {str(name)!r} on this machine: {reason}") from error
