"""Any module as one vector: blocks, tied and frozen parameters, and the choice of sparse layers."""

import pytest
import torch
from torch import nn

from sparse_langevin.sampling.flat import FlatParameters, choose_sparse


class Tied(nn.Module):
    """An embedding whose matrix is also the output layer's weight."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.hidden = nn.Linear(4, 4)
        self.out = nn.Linear(4, 10, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(self.embed(x))))


def small():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3), nn.LayerNorm(3))


def test_parameters_become_views_and_keep_their_values():
    model = small()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    identity = {n: id(p) for n, p in model.named_parameters()}
    flat = FlatParameters(model)
    assert flat.size == sum(p.numel() for p in before.values())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert id(parameter) == identity[name]
    flat.vector.zero_()
    assert all((p == 0).all() for p in model.parameters())


def test_blocks_are_the_dense_part_and_one_per_sparse_layer():
    flat = FlatParameters(small())
    assert [(b.name, b.size, b.sparse) for b in flat.blocks] == [
        ("(dense)", 2 + 3 + 3 + 3, False),
        ("0.weight", 18, True),
        ("2.weight", 24, True),
    ]
    assert flat.sparse_start == 11
    assert [b.start for b in flat.blocks[1:]] == [b.stop for b in flat.blocks[:-1]]


def test_gradient_lands_in_the_right_places():
    model = small()
    flat = FlatParameters(model)
    x = torch.randn(5, 1, 4, 4)
    loss = model(x).square().sum()
    flat.differentiate(loss, 1.0)
    model.zero_grad()
    model(x).square().sum().backward()
    for name, gradient in flat.views(flat.grad).items():
        torch.testing.assert_close(gradient, dict(model.named_parameters())[name].grad)


def test_unused_parameters_have_zero_gradient():
    model = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)})
    flat = FlatParameters(model)
    flat.grad.fill_(7.0)
    flat.differentiate(model["used"](torch.ones(1, 2)).sum(), 1.0)
    assert (flat.views(flat.grad)["unused.weight"] == 0).all()


def test_tied_parameters_appear_once():
    model = Tied()
    flat = FlatParameters(model)
    assert flat.size == 40 + 16 + 4
    assert [b.name for b in flat.blocks] == ["(dense)", "embed.weight", "hidden.weight"]
    flat.vector.fill_(2.0)
    assert (model.out.weight == 2).all() and model.out.weight is model.embed.weight
    assert choose_sparse(model, ["out"]) == choose_sparse(model, ["out.weight"]) == {"embed.weight"}


def test_frozen_parameters_are_left_alone():
    model = small()
    model[0].weight.requires_grad_(False)
    storage = model[0].weight.data_ptr()
    flat = FlatParameters(model)
    assert model[0].weight.data_ptr() == storage
    assert [b.name for b in flat.blocks] == ["(dense)", "2.weight"]
    with pytest.raises(ValueError, match="frozen"):
        choose_sparse(model, ["0.weight"])


def test_choices_of_sparse_layers():
    model = small()
    assert choose_sparse(model, None) == {"0.weight", "2.weight"}
    assert choose_sparse(model, lambda name, p: p.dim() == 2) == {"2.weight"}
    assert choose_sparse(model, ["2"]) == choose_sparse(model, [model[2]]) == {"2.weight"}
    assert choose_sparse(model, ["2.bias", "0.weight"]) == {"2.bias", "0.weight"}
    assert choose_sparse(model, []) == set()
    assert choose_sparse(nn.Sequential(model, nn.Linear(3, 1)), [model]) == {"0.0.weight", "0.2.weight"}


def test_attention_and_bilinear_layers_are_sparse():
    same, other = nn.MultiheadAttention(4, 2, add_bias_kv=True), nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    assert choose_sparse(same, None) == {"in_proj_weight", "out_proj.weight"}
    projections = {f"{name}_proj_weight" for name in "qkv"}
    assert choose_sparse(other, None) == projections | {"out_proj.weight"}
    assert choose_sparse(nn.Bilinear(2, 3, 4), None) == {"weight"}
    assert choose_sparse(nn.Sequential(nn.Embedding(5, 2), nn.GRU(2, 2)), None) == set()
    encoder = nn.TransformerEncoderLayer(4, 2, 8)
    assert choose_sparse(encoder, ["self_attn"]) == {"self_attn.in_proj_weight", "self_attn.out_proj.weight"}
    weights = {"self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight"}
    assert choose_sparse(encoder, None) == weights
    encoder.self_attn.in_proj_weight.requires_grad_(False)
    assert choose_sparse(encoder, None) == weights - {"self_attn.in_proj_weight"}


def test_unknown_names_suggest_known_ones():
    with pytest.raises(ValueError, match=r"unknown layer name '2.weigth'. Did you mean '2.weight'\?"):
        choose_sparse(small(), ["2.weigth"])
    with pytest.raises(ValueError, match="not part of the model"):
        choose_sparse(small(), [nn.Linear(1, 1)])
    with pytest.raises(ValueError, match="no linear, convolution, bilinear or attention weights"):
        choose_sparse(small(), ["3"])
    with pytest.raises(TypeError, match="put it in a list"):
        choose_sparse(small(), "2.weight")


def test_shared_memory_and_parametrised_layers():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.weight.data = one.weight.data
    with pytest.raises(ValueError, match="share memory but are two objects"):
        FlatParameters(nn.Sequential(one, two))
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    before = normed.parametrizations.weight[0]._u.clone()
    assert choose_sparse(normed, None) == set()
    assert torch.equal(normed.parametrizations.weight[0]._u, before)


def test_mixed_kinds_are_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(
        ValueError, match=r"one dtype and one device: '0.weight' is torch.float32.*'1.weight' is torch.float64"
    ):
        FlatParameters(model)
    with pytest.raises(ValueError, match="float32 or float64"):
        FlatParameters(nn.Linear(2, 2).half())
    with pytest.raises(ValueError, match="no trainable parameters"):
        FlatParameters(nn.ReLU())


def test_moved_models_are_noticed():
    model = small()
    flat = FlatParameters(model)
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    flat.check_seating()
    model.double()
    with pytest.raises(RuntimeError, match=r"'0.bias' is no longer part.*model.to\(...\) first"):
        flat.check_seating()
