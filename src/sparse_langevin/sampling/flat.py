"""A model's parameters as views of one flat vector, cut into blocks.

The trainable parameters of a model become views of one vector: first the block of all dense parameters (biases, and
layers that are not sparse), then one block for each sparse layer. State, noise, samples and masks are then plain 1-D
tensors, and a block is a slice of them. Tied parameters appear once; frozen parameters (``requires_grad=False``) are
left alone.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SparseChoice = Callable[[str, nn.Parameter], bool] | Iterable[str | nn.Module] | None

DENSE = "(dense)"  # not the name of any parameter
KINDS = (
    *(nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)
PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")  # of nn.MultiheadAttention


@dataclass(frozen=True)
class Entry:
    """One parameter's place in the flat vector."""

    name: str
    start: int
    stop: int
    shape: torch.Size


@dataclass(frozen=True)
class Block:
    """A contiguous part of the flat vector that shares one prior: all dense parameters, or one sparse layer."""

    name: str
    start: int
    stop: int
    sparse: bool

    @property
    def size(self) -> int:
        """Number of parameters in the block."""
        return self.stop - self.start

    @property
    def span(self) -> slice:
        """The block's slice of the flat vector."""
        return slice(self.start, self.stop)


class FlatParameters:
    """The trainable parameters of ``model`` as views of one vector.

    The parameters remain the same objects; only their storage changes. `choose_sparse` explains ``sparse``.

    Attributes
    ----------
    vector : Tensor
        All trainable parameters.
    grad : Tensor
        The last gradient, in the same order.
    blocks : tuple of Block
        The dense block (if any) and the sparse layers.
    sparse_start : int
        The index at which the sparse part of the vector begins; it extends to the end.
    """

    def __init__(self, model: nn.Module, sparse: SparseChoice = None) -> None:
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not trainable:
            raise ValueError("the model has no trainable parameters: check requires_grad")
        _require_one_kind(trainable)
        chosen = choose_sparse(model, sparse)
        order = [n for n in trainable if n not in chosen] + [n for n in trainable if n in chosen]
        self.parameters = [trainable[name] for name in order]
        self.vector = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self.grad = torch.zeros_like(self.vector)
        self.entries = tuple(_entries(order, self.parameters))
        self.sparse_start = next((e.start for e in self.entries if e.name in chosen), self.vector.numel())
        dense = (Block(DENSE, 0, self.sparse_start, sparse=False),) if self.sparse_start else ()
        self.blocks = dense + tuple(Block(e.name, e.start, e.stop, True) for e in self.entries if e.name in chosen)
        for parameter, view in zip(self.parameters, self.views(self.vector).values(), strict=True):
            parameter.data = view
        self._addresses = [p.data_ptr() for p in self.parameters]

    @property
    def sparse_blocks(self) -> list[Block]:
        """The sparse layers."""
        return [block for block in self.blocks if block.sparse]

    @property
    def size(self) -> int:
        """Number of trainable parameters."""
        return self.vector.numel()

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Cut a flat vector into named tensors of the parameters' shapes, without copying."""
        return {e.name: vector[e.start : e.stop].view(e.shape) for e in self.entries}

    def unsampled(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the model's frozen parameters and its buffers, which are not part of the vector."""
        sampled = {entry.name for entry in self.entries}
        frozen = {f"model.{n}": p.detach() for n, p in model.named_parameters() if n not in sampled}
        return frozen | {f"model.{n}": buffer for n, buffer in model.named_buffers()}

    def check_seating(self) -> None:
        """Raise an error if a parameter is no longer a view of the flat vector."""
        for parameter, address, entry in zip(self.parameters, self._addresses, self.entries, strict=True):
            if parameter.data_ptr() != address or parameter.dtype != self.vector.dtype:
                raise RuntimeError(
                    f"parameter {entry.name!r} is no longer part of the sampler's flat vector: the model was moved or "
                    "cast, or its parameters were replaced, after the sampler was created. Call model.to(...) first "
                    "and create the sampler afterwards; to load weights, use model.load_state_dict, which copies in "
                    "place."
                )

    def differentiate(self, value: Tensor, factor: float, *, create_graph: bool = False) -> list[Tensor]:
        """Write ``factor`` times the gradient of the scalar ``value`` to `grad`; return it parameter by parameter."""
        gradients = list(
            torch.autograd.grad(
                value,
                self.parameters,
                torch.full_like(value, factor),  # multiplying ``value`` would add another node to the graph
                create_graph=create_graph,
                materialize_grads=True,
                allow_unused=True,
            )
        )
        torch.cat([g.detach().reshape(-1) for g in gradients], out=self.grad)
        return gradients


def choose_sparse(model: nn.Module, sparse: SparseChoice) -> set[str]:
    """Return the names of the parameters of ``model`` that are sparse layers.

    ``sparse`` is None for the weights of all linear, convolution, bilinear and attention layers, without biases; or a
    predicate on (name, parameter); or a list of parameter names, module names and modules, in which a module stands for
    the weights of such layers inside it. Of ``nn.MultiheadAttention`` these are the projections of queries, keys and
    values, which are one parameter ``in_proj_weight`` if they have the same width, and of the output.

    Embeddings stay dense, since their rows are looked up and not multiplied: zeros in them would save no arithmetic.
    Recurrent layers stay dense, too. To make them sparse, name their parameters.
    """
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if sparse is None:
        return _layer_weights(model, model) & trainable.keys()
    if isinstance(sparse, str | nn.Module):
        raise TypeError(f"sparse must be a predicate or a list of names or modules, got {sparse!r}: put it in a list")
    if callable(sparse):
        return {name for name, p in trainable.items() if sparse(name, p)}
    chosen: set[str] = set()
    for item in sparse:
        names = named_parameters_of(model, item)
        frozen = names - trainable.keys()
        if frozen:
            raise ValueError(
                f"sparse layer {sorted(frozen)[0]!r} is frozen (requires_grad=False): unfreeze it or leave it out"
            )
        chosen |= names
    return chosen


def named_parameters_of(model: nn.Module, item: str | nn.Module) -> set[str]:
    """Return the names of the parameters that one item of the list ``sparse`` stands for."""
    first_name = {id(p): name for name, p in model.named_parameters()}
    every_name = dict(model.named_parameters(remove_duplicate=False))
    modules = dict(model.named_modules(remove_duplicate=False))
    if isinstance(item, nn.Module):
        if all(item is not module for module in modules.values()):
            raise ValueError(f"sparse names a {type(item).__name__} module that is not part of the model")
        names = _layer_weights(model, item)
    elif item in every_name:
        return {first_name[id(every_name[item])]}
    elif item in modules:
        names = _layer_weights(model, modules[item])
    else:
        raise ValueError(unknown_name(item, every_name))
    if not names:
        raise ValueError(
            f"sparse names {item!r}, which holds no linear, convolution, bilinear or attention weights; name its "
            "parameters instead"
        )
    return names


def unknown_name(name: object, known: Iterable[str]) -> str:
    """Return the error message for a layer name that does not exist."""
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"unknown layer name {name!r}.{hint} Known names: {', '.join(known)}"


def _layer_weights(model: nn.Module, root: nn.Module) -> set[str]:
    """Return the names in ``model`` of the weights below ``root`` that are sparse unless somebody says otherwise."""
    chosen: list[tuple[nn.Module, str]] = [(module, "weight") for module in root.modules() if isinstance(module, KINDS)]
    chosen += [(m, name) for m in root.modules() if isinstance(m, nn.MultiheadAttention) for name in PROJECTIONS]
    # Not module.weight: a parametrised layer would compute a new tensor, and may advance a power iteration.
    weights = {id(module._parameters.get(name)) for module, name in chosen}
    return {name for name, p in model.named_parameters() if id(p) in weights}


def _entries(names: list[str], parameters: list[nn.Parameter]) -> Iterable[Entry]:
    start = 0
    for name, parameter in zip(names, parameters, strict=True):
        yield Entry(name, start, start + parameter.numel(), parameter.shape)
        start += parameter.numel()


def _require_one_kind(parameters: dict[str, nn.Parameter]) -> None:
    places: dict[int, str] = {}
    for name, parameter in parameters.items():
        other = places.setdefault(parameter.data_ptr(), name)
        if other != name and parameter.numel():
            raise ValueError(
                f"parameters {other!r} and {name!r} share memory but are two objects: tie them by assigning one "
                "parameter to both modules, as in layer.weight = other.weight"
            )
    kinds: dict[tuple[torch.dtype, torch.device], str] = {}
    for name, parameter in parameters.items():
        kinds.setdefault((parameter.dtype, parameter.device), name)
    if len(kinds) > 1:
        seen = "; ".join(f"{name!r} is {dtype} on {device}" for (dtype, device), name in kinds.items())
        raise ValueError(f"all trainable parameters must share one dtype and one device: {seen}. Use model.to(...)")
    dtype = next(iter(kinds))[0]
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"parameters must be float32 or float64, got {dtype}: use model.float() or model.double()")
