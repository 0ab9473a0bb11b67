"""The torch data set: normalised by the training part, and exactly invertible."""

import pytest
import torch

from sparse_langevin.problems.darcy import DarcyDataset, Grid, Normalisation, Recipe, generate


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return generate(Recipe("kle", 50, Grid(8, 6), {"terms": 10}), tmp_path_factory.mktemp("d") / "kle", workers=0)


def test_training_part_is_standardised(data):
    train = DarcyDataset(data, "train", dtype=torch.float64)
    assert len(train) == 40 and train.inputs.shape == (40, 1, 6, 8) and train.targets.shape == (40, 110)
    assert float(train.inputs.mean()) == pytest.approx(0, abs=1e-12)
    assert float(train.inputs.std(correction=0)) == pytest.approx(1)
    assert torch.allclose(train.targets.mean(0), torch.zeros(110, dtype=torch.float64), atol=1e-12)
    assert float(train.targets.square().mean()) == pytest.approx(1)
    x, y = train[3]
    assert x.shape == (1, 6, 8) and y.shape == (110,)


def test_test_part_uses_the_training_scale_and_decodes(data):
    train, test = (DarcyDataset(data, split, dtype=torch.float64) for split in ("train", "test"))
    assert len(test) == 10
    velocity = torch.from_numpy(data.array("velocity", "test"))
    assert torch.allclose(train.normalisation.decode(test.targets), velocity, rtol=0, atol=1e-12)
    kappa = torch.from_numpy(data.array("kappa", "test"))
    assert torch.equal(train.normalisation.encode(kappa), test.inputs)
    assert next(iter(torch.utils.data.DataLoader(test, batch_size=4)))[0].shape == (4, 1, 6, 8)
    assert DarcyDataset(data)[0][0].dtype == torch.float32


def test_constant_fields_map_to_zero():
    constant = Normalisation.of(torch.ones(3, 2, 2), torch.full((3, 12), 4.0))
    assert torch.equal(constant.encode(torch.ones(3, 2, 2)), torch.zeros(3, 1, 2, 2).double())
    assert torch.equal(
        constant.encode_outputs(torch.full((3, 12), 4.0), torch.ones(3, 2, 2)), torch.zeros(3, 12).double()
    )


def test_logarithms_where_they_are_more_symmetric():
    generator = torch.Generator().manual_seed(0)
    gaussian = torch.randn(50, 4, 4, generator=generator, dtype=torch.float64)
    velocity, facies = torch.randn(50, 40), torch.where(gaussian > 1, 5.0, 1.0).double()
    for kappa, log in ((8 + gaussian, 0), (facies, 0), (torch.exp(gaussian), 1), (torch.exp(0.2 * gaussian), 0)):
        maps = Normalisation.of(kappa, velocity)
        assert maps.kappa_log == log
        encoded = maps.encode(kappa)
        assert encoded.shape == (50, 1, 4, 4)
        assert float(encoded.mean()) == pytest.approx(0, abs=1e-12)
        assert float(encoded.square().mean()) == pytest.approx(1)
        expected = kappa.log() if log else kappa
        assert torch.corrcoef(torch.stack([encoded.flatten(), expected.flatten()]))[0, 1] == pytest.approx(1)


def test_an_empty_part_is_an_error(tmp_path):
    data = generate(Recipe("kle", 4, Grid(4, 4), {"terms": 3}, test_share=0.0), tmp_path / "d", workers=0)
    with pytest.raises(ValueError, match="no samples in its test part"):
        DarcyDataset(data, "test")
