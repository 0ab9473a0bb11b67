"""Tensors as arrays of bytes, which take less space the more zeros there are.

An encoding says where the nonzeros of a weight are. The smallest one that fits the weight is taken:

    dense     all numbers are stored, zeros too
    bitmap    one bit for each number says whether it is stored
    indices   16 bits for the column of each nonzero, and the number of nonzeros in each row

A form says how float32 numbers are stored:

    packed    exactly: the 8 bits of the exponent are Huffman-coded, because few of their values are common; the 24
              bits of sign and mantissa are stored as they are
    short     the same with the mantissa rounded to 15 bits, a relative error of at most 1/65536
    float32   exactly, in 4 bytes each
    float16, bfloat16   rounded, in 2 bytes each

A weight is a float32 parameter with at least two dimensions; its rows are its first dimension. Any other tensor is
stored as it is. In an exact form everything comes back bit for bit, except that -0.0 in a sparse weight comes back as
0.0; multiplying by a mask leaves many of them.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

Values = Literal["packed", "short", "float32", "float16", "bfloat16"]
Encoding = Literal["dense", "bitmap", "indices"]

MAX_COLUMNS = 2**16 - 1  # the number of nonzeros in a row also has 16 bits


@dataclass(frozen=True)
class Layer:
    """How one tensor of a model is stored; the manifest has one for each."""

    shape: tuple[int, ...]
    dtype: str
    encoding: Encoding
    values: str
    """A form of `Values`, or "plain" for a tensor that is not a weight."""
    nonzeros: int


def encode(name: str, tensor: Tensor, *, weight: bool, values: Values) -> tuple[Layer, dict[str, Tensor]]:
    """Return the manifest's entry for a tensor, and the arrays to store, by name."""
    shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.detach().cpu().contiguous()
    if not weight or tensor.dtype != torch.float32 or tensor.dim() < 2:
        return Layer(shape, dtype, "dense", "plain", int(tensor.count_nonzero())), {name: tensor.clone()}
    rows = tensor.view(len(tensor), -1) if tensor.numel() else tensor.new_empty(0, 0)
    kept = rows != 0
    count = int(kept.sum())
    encoding = _smallest(rows.shape[0], rows.shape[1], count, 2 if values in ("float16", "bfloat16") else 4)
    arrays: dict[str, Tensor] = {}
    if encoding == "bitmap":
        arrays["bitmap"] = torch.from_numpy(np.packbits(kept.numpy().reshape(-1)))
    elif encoding == "indices":
        arrays["columns"] = kept.nonzero()[:, 1].to(torch.uint16)
        arrays["counts"] = kept.sum(1).to(torch.uint16)
    numbers = rows.reshape(-1) if encoding == "dense" else rows[kept]
    arrays |= _store(name, numbers, values)
    return Layer(shape, dtype, encoding, values, count), {f"{name}:{part}": array for part, array in arrays.items()}


def decode(name: str, layer: Layer, arrays: Mapping[str, Tensor]) -> Tensor:
    """Return the tensor that `encode` was given; raise ValueError or KeyError if the arrays do not fit the layer."""
    if layer.values == "plain":
        tensor = arrays[name]
        if tuple(tensor.shape) != layer.shape or str(tensor.dtype) != f"torch.{layer.dtype}":
            raise ValueError(f"{name!r} is {tensor.dtype} of shape {tuple(tensor.shape)}, unlike in the manifest")
        return tensor
    parts = {part: arrays[f"{name}:{part}"] for part in _PARTS[layer.encoding] + _PARTS[layer.values]}
    size = int(np.prod(layer.shape, dtype=np.int64))
    numbers = _restore(name, parts, size if layer.encoding == "dense" else layer.nonzeros, layer.values)
    if layer.encoding == "dense":
        return numbers.view(layer.shape)
    dense = numbers.new_zeros(size)
    dense[_places(name, layer, parts, size)] = numbers
    return dense.view(layer.shape)


def _places(name: str, layer: Layer, parts: Mapping[str, Tensor], size: int) -> Tensor:
    """Return the indices of the nonzeros in the flat tensor."""
    if layer.encoding == "bitmap":
        bits = np.unpackbits(parts["bitmap"].numpy(), count=size)
        places = torch.from_numpy(np.flatnonzero(bits))
    else:
        columns, counts = parts["columns"].long(), parts["counts"].long()
        width = size // max(1, layer.shape[0])
        if len(counts) != layer.shape[0] or int(counts.sum()) != len(columns) or bool((columns >= width).any()):
            raise ValueError(f"the columns of {name!r} do not fit its shape {layer.shape}")
        places = torch.arange(layer.shape[0]).repeat_interleave(counts) * width + columns
    if len(places) != layer.nonzeros:
        raise ValueError(f"{name!r} has places for {len(places)} nonzeros, but the manifest says {layer.nonzeros}")
    return places


def _smallest(rows: int, columns: int, nonzeros: int, width: int) -> Encoding:
    """Return the encoding with the fewest bytes; packed numbers are counted with their unpacked size."""
    sizes: dict[Encoding, int] = {"dense": rows * columns * width}
    sizes["bitmap"] = nonzeros * width + -(-rows * columns // 8)
    if columns <= MAX_COLUMNS:
        sizes["indices"] = nonzeros * (width + 2) + 2 * rows
    return min(sizes, key=sizes.__getitem__)


def _store(name: str, numbers: Tensor, values: Values) -> dict[str, Tensor]:
    """Return float32 numbers as the arrays to store, by name."""
    if values in _BYTES:
        bits, width = numbers.numpy().view(np.uint32), _BYTES[values]
        if values == "short":
            # Rounded to nearest, ties to even; numbers that are not finite keep their highest bits.
            rounded = bits + np.uint32(0x7F) + (bits >> 8 & 1)
            bits = np.where(numbers.isfinite().numpy(), rounded, bits)
            _require_finite(name, numbers, torch.from_numpy(bits.view(np.float32)), values)
        mantissa = bits >> (24 - 8 * width) & (2 ** (8 * width - 1) - 1)
        rest = mantissa | (bits >> 31 << (8 * width - 1))
        code = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_HUFFMAN_ONLY)
        exponents = code.compress(((bits >> 23) & 0xFF).astype(np.uint8).tobytes()) + code.flush()
        return {
            "exponents": torch.from_numpy(np.frombuffer(exponents, np.uint8).copy()),
            "rest": torch.from_numpy(rest.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :width].copy()),
        }
    stored = numbers.to(getattr(torch, values)).clone()
    _require_finite(name, numbers, stored, values)
    return {"numbers": stored}


def _require_finite(name: str, numbers: Tensor, stored: Tensor, values: str) -> None:
    if bool((stored.isfinite() != numbers.isfinite()).any()):
        raise ValueError(f"{name!r} has numbers up to {float(numbers.abs().max()):g}, too large for {values}")


def _restore(name: str, parts: Mapping[str, Tensor], count: int, values: str) -> Tensor:
    """Return the numbers that `_store` was given."""
    if values not in _BYTES:
        numbers = parts["numbers"]
        if numbers.shape != (count,) or str(numbers.dtype) != f"torch.{values}":
            raise ValueError(f"{name!r} has {len(numbers)} numbers in {numbers.dtype}, expected {count} in {values}")
        return numbers.float()
    inflater = zlib.decompressobj(-15)
    try:
        raw = inflater.decompress(parts["exponents"].numpy().tobytes(), count + 1)
    except zlib.error as error:
        raise ValueError(f"the exponents of {name!r} cannot be read: {error}") from error
    rest, width = parts["rest"].numpy(), _BYTES[values]
    if len(raw) != count or rest.shape != (count, width):
        raise ValueError(f"{name!r} has {len(raw)} exponents and {len(rest)} mantissas, expected {count}")
    wide = np.zeros((count, 4), np.uint8)
    wide[:, :width] = rest
    bits = wide.reshape(-1).view("<u4").astype(np.uint32)
    exponents = np.frombuffer(raw, np.uint8).astype(np.uint32)
    mantissa = (bits & (2 ** (8 * width - 1) - 1)) << (24 - 8 * width)
    result: Any = mantissa | (bits >> (8 * width - 1) << 31) | (exponents << 23)
    return torch.from_numpy(result.view(np.float32))


_BYTES = {"packed": 3, "short": 2}  # bytes for the sign and the mantissa
_PARTS: dict[str, tuple[str, ...]] = {"dense": (), "bitmap": ("bitmap",), "indices": ("columns", "counts")}
_PARTS |= {form: ("exponents", "rest") if form in _BYTES else ("numbers",) for form in get_args(Values)}
