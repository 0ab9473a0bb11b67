r"""Samples as bytes: only the values that are not zero, in 16 bits or in full, each file with its checksum.

A bank has three kinds of file. A *mask* holds the names and shapes of the parameters, and one bit for each number in
them: zero or not. A *base* holds the nonzero values of a chain's first sample in full. A *sample* holds its nonzero
values v, in full or as

    (v - b) / 2^e  in float16,

where b is the base and 2^e the power of two that makes best use of the 16 bits. The relative error of such a difference
is at most 2^-11. It is therefore small compared with the spread of the posterior, whatever the size of the weights;
rounding v itself would cause a large error in weights whose posterior is narrow.

Each file is a safetensors file with one tensor. Its metadata is one JSON entry, whose ``crc32`` covers the rest of the
entry and the bytes of the tensor.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor

from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.storage.files import canonical, sha256

Precision = Literal["float16", "full"]
PRECISIONS = get_args(Precision)
Values = NDArray[Any]
Buffer = Any  # bytes, or a file mapped into memory
FORMAT = 2
LARGEST_EXPONENT = 15  # float16 reaches 65504, just below 2^16
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, FileNotFoundError)
_KINDS = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "uint8": "|u1"}


@dataclass(frozen=True)
class Sample:
    """One posterior sample: named parameters, their noise level and their weight in averages."""

    chain: int
    step: int
    weight: float
    sigma: float
    parameters: dict[str, Tensor]
    delta: dict[str, float] = field(default_factory=dict)
    """Inclusion probability of each spike-and-slab layer."""
    noise: float = math.nan
    """Standard deviation of a new observation around the output: sigma by default, 0 if there is no noise."""
    batch_norms: tuple[str, ...] = ()
    """BatchNorm layers that normalised by the batch; predictions estimate their statistics from training inputs."""

    def __post_init__(self) -> None:
        if math.isnan(self.noise):
            object.__setattr__(self, "noise", self.sigma)


@dataclass(frozen=True)
class Mask:
    """Names, shapes and type of a model's parameters, and which of them are not zero."""

    entries: tuple[tuple[str, tuple[int, ...]], ...]
    dtype: str
    bits: bytes
    """One bit for each number, starting with the lowest bit of each byte."""

    @classmethod
    def of(cls, flat: FlatParameters, vector: Values) -> "Mask":
        """Return the mask of a flat vector."""
        entries = tuple((entry.name, tuple(entry.shape)) for entry in flat.entries)
        return cls(entries, vector.dtype.name, np.packbits(vector != 0, bitorder="little").tobytes())

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for _, shape in self.entries)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, shapes, type and bits."""
        return sha256(canonical({"entries": self.entries, "dtype": self.dtype}) + self.bits)

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Indices of the numbers that are not zero."""
        bits = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.size, bitorder="little")
        return np.flatnonzero(bits)

    def same_model(self, other: "Mask") -> bool:
        """Whether the parameters of two masks have the same names, shapes and type."""
        return (self.entries, self.dtype) == (other.entries, other.dtype)

    def scatter(self, values: Values) -> Values:
        """Return the whole vector, with zeros where the mask has them."""
        vector = np.zeros(self.size, self.dtype)
        vector[self.positions] = values
        return vector

    def parameters(self, values: Values) -> dict[str, Tensor]:
        """Return the parameters by name, as views of one vector."""
        vector, parts, start = torch.from_numpy(self.scatter(values)), {}, 0
        for name, shape in self.entries:
            parts[name] = vector[start : start + math.prod(shape)].view(shape)
            start += math.prod(shape)
        return parts

    def encode(self) -> bytes:
        """Return the bytes of the mask's file."""
        return pack({"entries": self.entries, "dtype": self.dtype}, np.frombuffer(self.bits, np.uint8))

    @classmethod
    def decode(cls, data: Buffer, digest: str) -> "Mask":
        """Read a mask, and raise an error if it has another digest."""
        facts, bits = unpack(data)
        mask = cls(tuple((name, tuple(shape)) for name, shape in facts["entries"]), facts["dtype"], bits.tobytes())
        if len(bits) != -(-mask.size // 8):
            raise ValueError(f"it has {len(bits)} bytes for {mask.size} parameters")
        if mask.digest != digest:
            raise ValueError("it holds another mask than its name says")
        return mask


@dataclass(frozen=True)
class Base:
    """A chain's first sample; its other samples are stored as differences to it."""

    step: int
    values: Values
    """The nonzero values, in the order of the mask."""
    mask: Mask
    crc: int
    """Checksum of the file; each sample records it, so that no other base can be mistaken for this one."""

    def at(self, mask: Mask) -> Values:
        """Return the values where another mask is not zero."""
        if mask.digest == self.mask.digest:
            return self.values
        values: Values = self.mask.scatter(self.values)[mask.positions]
        return values


def to_half(values: Values, origin: Values) -> tuple[Values, int]:
    """Return the differences to the origin in float16, divided by a power of two, and its exponent."""
    difference = values - origin
    largest = float(np.abs(difference).max(initial=0.0))
    exponent = math.frexp(largest)[1] - LARGEST_EXPONENT if largest else 0
    _scale(difference, -exponent)
    return torch.from_numpy(difference).half().numpy(), exponent  # NumPy's conversion is several times slower


def from_half(values: Values, exponent: int, origin: Values) -> Values:
    """Undo `to_half`, up to rounding."""
    difference = values.astype(origin.dtype)
    _scale(difference, exponent)
    difference += origin
    return difference


def _scale(values: Values, exponent: int) -> None:
    """Multiply by a power of two in place, in two steps since the power itself may be out of range."""
    half = exponent // 2
    values *= values.dtype.type(2.0**half)
    values *= values.dtype.type(2.0 ** (exponent - half))


def pack(facts: Mapping[str, Any], values: Values) -> bytes:
    """Return the bytes of a file that holds one array and some facts about it."""
    known = {"format": FORMAT, **facts, "kind": values.dtype.name, "count": values.size}
    crc = zlib.crc32(np.ascontiguousarray(values).data, zlib.crc32(canonical(known)))
    # A single entry, because the writer of the format would put several in no particular order, and files must be
    # reproducible.
    content: bytes = save({"values": values}, metadata={"about": json.dumps(known | {"crc32": crc})})
    return content


def unpack(data: Buffer) -> tuple[dict[str, Any], Values]:
    """Return the facts, with ``crc32``, and the array, a view of ``data``; damaged bytes raise one of `DAMAGE`."""
    facts, start = _header(data)
    crc = facts.pop("crc32")
    kind, count = np.dtype(_KINDS[facts["kind"]]), int(facts["count"])
    if len(data) != start + count * kind.itemsize:
        raise ValueError(f"it has {len(data)} bytes instead of {start + count * kind.itemsize}")
    values = np.frombuffer(data, kind, count, start)
    if zlib.crc32(values.data, zlib.crc32(canonical(facts))) != crc:
        raise ValueError("it does not match its checksum")
    if facts["format"] != FORMAT:
        raise ValueError(f"it has format {facts['format']}, but this version reads {FORMAT}")
    return facts | {"crc32": crc}, values


def mask_of(data: Buffer) -> str:
    """Return the digest of the mask that a sample or a base refers to, from its header alone."""
    return str(_header(data)[0].get("mask"))


def _header(data: Buffer) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:8], "little")
    if not 0 < length <= len(data) - 8:
        raise ValueError("it is truncated, or not a file of a bank")
    return dict(json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["about"])), 8 + length
