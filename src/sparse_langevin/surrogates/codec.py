"""How a problem's inputs and outputs become numbers of order one, and back."""

from torch import Tensor, nn


class Codec(nn.Module):
    """Base class of the maps between physical values and numbers of order one; its parameters are kept as buffers.

    All methods work on tensors with the examples in front, on any device, and can be differentiated and exported.
    Buffers are in double precision, as are inputs and outputs; encoded inputs are then rounded for the network.
    """

    def fit(self, inputs: Tensor, outputs: Tensor) -> None:
        """Take means and deviations from training data."""
        raise NotImplementedError

    def encode(self, inputs: Tensor) -> Tensor:
        """Input of the network: (n, channels, ...) for fields, (n, features) for vectors."""
        raise NotImplementedError

    def encode_outputs(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Target of the network, flat: (n, number of outputs)."""
        raise NotImplementedError

    def decode(self, normalised: Tensor) -> Tensor:
        """Outputs in physical units, without the `offset`: (n, number of outputs) to (n, *output_shape)."""
        raise NotImplementedError

    def offset(self, inputs: Tensor) -> Tensor | None:
        """What is added to decoded outputs, such as the result of a cheaper simulation; None if there is nothing."""
        return None

    @property
    def noise_scale(self) -> Tensor:
        """Physical deviation of noise that has deviation 1 in the network's output: a number, or one per output."""
        raise NotImplementedError

    def remarks(self) -> dict[str, str]:
        """Rows for the table of settings in a report, such as which inputs are replaced by their logarithms."""
        return {}
