"""How a problem's inputs and outputs become numbers of order one, and back."""

from torch import Tensor, nn


class Codec(nn.Module):
    """Maps between physical values and numbers of order one: derive from it, and keep what it needs as buffers.

    All methods work on tensors with the examples in front, on any device, and can be differentiated and exported.
    Buffers are double precision, as inputs and outputs are; what the network sees is rounded after it is encoded.
    """

    def fit(self, inputs: Tensor, outputs: Tensor) -> None:
        """Take means and deviations from training data."""
        raise NotImplementedError

    def encode(self, inputs: Tensor) -> Tensor:
        """What the network sees: (n, channels, ...) for fields, (n, features) for vectors."""
        raise NotImplementedError

    def encode_outputs(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """What the network should answer, flat: (n, number of outputs)."""
        raise NotImplementedError

    def decode(self, normalised: Tensor) -> Tensor:
        """The answer in physical units, up to `offset`: (n, number of outputs) to (n, *output_shape)."""
        raise NotImplementedError

    def offset(self, inputs: Tensor) -> Tensor | None:
        """What is known of the answer without a network, to be added to it: a cheaper simulation's; None if nothing."""
        return None

    @property
    def noise_scale(self) -> Tensor:
        """What noise of deviation 1 in the network's answer is in the output: a number, or of the output's shape."""
        raise NotImplementedError

    def remarks(self) -> dict[str, str]:
        """Rows for the table of settings in a report, such as that logarithms are taken."""
        return {}
