"""Random fields: the expansion against dense linear algebra and its own covariance; channels; crops."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparse_langevin.problems.darcy import KLE, Channels, Grid, ImageCrops, read_facies

IMAGE = Path(__file__).parents[4] / "shared" / "data" / "laloy2018_channels_2500.png"


def dense_covariance(grid, kernel, lx, ly, variance):
    x, y = (c.ravel() for c in grid.centres())
    dx, dy = np.abs(np.subtract.outer(x, x)) / lx, np.abs(np.subtract.outer(y, y)) / ly
    return variance * (np.exp(-(dx**2) - dy**2) if kernel == "squared-exponential" else np.exp(-dx - dy))


@pytest.mark.parametrize("kernel", ["squared-exponential", "exponential"])
@pytest.mark.parametrize("grid", [Grid(12, 12), Grid(9, 15, 2.0, 0.5)])
def test_eigenvalues_against_a_dense_decomposition(kernel, grid):
    kle = KLE(grid, terms=60, kernel=kernel)
    dense = np.linalg.eigvalsh(dense_covariance(grid, kernel, 0.2, 0.3, 2.0))[::-1]
    assert np.abs(kle.eigenvalues - dense[:60]).max() < 1e-10 * dense[0]
    assert kle.captured == pytest.approx(dense[:60].sum() / dense.sum(), abs=1e-12)


@pytest.mark.parametrize("kernel", ["squared-exponential", "exponential"])
def test_all_terms_reproduce_the_covariance_exactly(kernel):
    grid = Grid(5, 4)
    kle = KLE(grid, terms=20, kernel=kernel)
    modes = kle.gaussian(np.eye(20)).reshape(20, -1)
    np.testing.assert_allclose(modes.T @ modes, dense_covariance(grid, kernel, 0.2, 0.3, 2.0), atol=1e-12)


@pytest.mark.parametrize("kernel", ["squared-exponential", "exponential"])
def test_empirical_covariance(kernel):
    """20,000 fields; each entry within 4 standard errors of the kernel, up to the share lost to truncation."""
    grid = Grid(10, 8)
    kle = KLE(grid, terms=80, kernel=kernel, mode="lognormal", kappa_0=1.0)
    rng = np.random.default_rng(0)
    fields = np.log([kle.sample(rng)[0].ravel() for _ in range(20_000)])
    exact = dense_covariance(grid, kernel, 0.2, 0.3, 2.0)
    seen = fields.T @ fields / len(fields)
    error = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / len(fields))
    z = (np.abs(seen - exact) / error)[np.triu_indices(80)]
    assert np.abs(fields.mean(0)).max() < 4 * math.sqrt(2.0 / len(fields))
    assert (z > 4).mean() < 1e-3 and z.max() < 5  # of 3240 entries 0.2 are expected beyond 4


def test_captured_variance_of_the_papers_fields():
    grid = Grid(50, 50)
    smooth = [KLE(grid, terms=t).captured for t in (32, 64, 128)]
    rough = [KLE(grid, terms=t, kernel="exponential").captured for t in (32, 64, 128)]
    assert smooth == pytest.approx([0.987, 0.9997, 1.0], abs=5e-4)
    assert rough == pytest.approx([0.75, 0.84, 0.90], abs=0.01)


def test_affine_fields_are_positive_and_redraws_are_counted():
    kle = KLE(Grid(12, 12), kappa_0=3.0)
    rng = np.random.default_rng(1)
    draws = [kle.sample(rng) for _ in range(300)]
    assert min(k.min() for k, _ in draws) > 0
    assert sum(r for _, r in draws) > 20
    with pytest.raises(ValueError, match=r"kappa_0 = 0.01 is too small"):
        KLE(Grid(12, 12), kappa_0=0.01).sample(rng)


def test_sample_is_a_function_of_the_generator():
    kle = KLE(Grid(12, 12))
    one, two = (kle.sample(np.random.default_rng(5))[0] for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"terms": 0}, "terms must lie"),
        ({"terms": 145}, "terms must lie"),
        ({"kernel": "matern"}, "kernel"),
        ({"mode": "log"}, "mode"),
        ({"lx": 0.0}, "lx"),
        ({"variance": -1.0}, "variance"),
        ({"kappa_0": math.nan}, "kappa_0"),
    ],
)
def test_bad_expansions(settings, message):
    with pytest.raises(ValueError, match=message):
        KLE(Grid(12, 12), **settings)


def test_channels_have_their_density_direction_and_permeability():
    grid = Grid(60, 60)
    rng = np.random.default_rng(0)
    flat = Channels(grid, permeability=(0.5, 20.0), density=0.3, amplitude=0.0, variation=0.0)
    facies = [flat.facies(rng) for _ in range(20)]
    assert 0.3 <= np.mean([f.mean() for f in facies]) < 0.42
    assert all((f == f[:, :1]).all() for f in facies)  # straight channels along x
    upright = Channels(grid, density=0.3, amplitude=0.0, variation=0.0, orientation=90.0).facies(rng)
    assert (upright == upright[:1]).all()
    kappa, redraws = flat.sample(rng)
    assert set(np.unique(kappa)) == {0.5, 20.0} and redraws == 0
    wavy = Channels(grid, amplitude=0.15).facies(rng)
    assert not (wavy == wavy[:, :1]).all()


def test_channel_width():
    grid = Grid(200, 200)
    one = Channels(grid, width=0.1, amplitude=0.0, variation=0.0, density=1e-9)
    widths = [one.facies(np.random.default_rng(i))[:, 0].sum() / 200 for i in range(200)]
    assert np.median([w for w in widths if w > 0.02]) == pytest.approx(0.1, abs=0.006)


@pytest.mark.parametrize(
    "settings",
    [{"density": 1.2}, {"width": 0.0}, {"variation": 1.0}, {"permeability": (1.0,)}, {"permeability": (1.0, -1.0)}],
)
def test_bad_channels(settings):
    with pytest.raises(ValueError, match=r"density|width|variation|permeability"):
        Channels(Grid(10, 10), **settings)


def crops_image(rows=100, columns=120):
    return np.arange(rows * columns).reshape(rows, columns) % 2


def test_random_crops_are_windows_of_the_image():
    image = (np.random.default_rng(0).random((40, 50)) < 0.3).astype(int)
    crops = ImageCrops(image, Grid(7, 5), permeability=(1.0, 100.0))
    rng, same = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(50):
        kappa, _ = crops.sample(rng)
        row, column = crops.corner(same, test=False)
        assert np.array_equal(kappa == 100.0, image[row : row + 5, column : column + 7] == 1)


@pytest.mark.parametrize("blocks", [2, 4, 5])
def test_blocked_split_shares_no_pixel(blocks):
    image = crops_image()
    crops = ImageCrops(image, Grid(9, 11), split="blocked", blocks=blocks, test_share=0.3)
    rng = np.random.default_rng(2)
    seen = {}
    for test in (False, True):
        seen[test] = np.zeros(image.shape, dtype=bool)
        for _ in range(4000):
            row, column = crops.corner(rng, test=test)
            seen[test][row : row + 11, column : column + 9] = True
    assert not (seen[False] & seen[True]).any()
    assert (seen[False] | seen[True]).mean() > 0.99  # and nothing is wasted
    assert seen[True].mean() == pytest.approx(0.3, abs=0.21 if blocks == 2 else 0.06)


def test_bad_crops():
    with pytest.raises(ValueError, match=r"the image \(120 by 100\) is smaller than a crop of 200 by 5"):
        ImageCrops(crops_image(), Grid(200, 5))
    with pytest.raises(ValueError, match=r"a tile of the image \(1/5 of 120 by 100\) is smaller"):
        ImageCrops(crops_image(), Grid(30, 5), split="blocked")
    with pytest.raises(ValueError, match="permeability needs 2 positive values"):
        ImageCrops(crops_image(), Grid(5, 5), permeability=(1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="split"):
        ImageCrops(crops_image(), Grid(5, 5), split="spatial")
    with pytest.raises(ValueError, match=r"test_share of a blocked split must lie between 0 and 1, got 0\.0"):
        ImageCrops(crops_image(), Grid(5, 5), split="blocked", test_share=0.0)
    ImageCrops(crops_image(), Grid(5, 5), test_share=0.0)  # all crops are for training


@pytest.mark.parametrize("kind", ["png", "tiff", "npy"])
def test_images_are_read_as_facies(kind, tmp_path):
    values = np.array([[0, 255, 128], [255, 0, 0]], dtype=np.uint8)
    path = tmp_path / f"image.{kind}"
    np.save(path, values) if kind == "npy" else Image.fromarray(values).save(path)
    assert read_facies(path).tolist() == [[0, 2, 1], [2, 0, 0]]


def test_unreadable_images(tmp_path):
    with pytest.raises(ValueError, match="there is no image"):
        read_facies(tmp_path / "none.png")
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(ValueError, match="can be read"):
        read_facies(tmp_path / "text.png")
    np.save(tmp_path / "many.npy", np.random.default_rng(0).random((20, 20)))
    with pytest.raises(ValueError, match="400 distinct values"):
        read_facies(tmp_path / "many.npy")
    np.save(tmp_path / "deep.npy", np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="one value per pixel"):
        read_facies(tmp_path / "deep.npy")


@pytest.mark.skipif(not IMAGE.exists(), reason="the public channel image is not beside this checkout")
def test_public_channel_image():
    facies = read_facies(IMAGE)
    assert facies.shape == (2500, 2500) and facies.max() == 1
    assert facies.mean() == pytest.approx(0.26, abs=0.03)


@pytest.mark.parametrize("kernel", ["squared-exponential", "exponential"])
def test_rounding_does_not_choose_signs(kernel, monkeypatch):
    """Other machines find the eigenvectors with other signs and other rounding errors, larger for small eigenvalues."""
    mu = np.random.default_rng(0).standard_normal(128)
    expected = KLE(Grid(50, 50), terms=128, kernel=kernel).gaussian(mu)
    exact, rng = np.linalg.eigh, np.random.default_rng(1)

    def elsewhere(matrix):
        values, vectors = exact(matrix)
        errors = 1e-15 * values.max() / np.maximum(values, 1e-15 * values.max())
        return values, (vectors + errors * rng.standard_normal(vectors.shape)) * rng.choice([-1, 1], len(values))

    monkeypatch.setattr(np.linalg, "eigh", elsewhere)
    found = KLE(Grid(50, 50), terms=128, kernel=kernel).gaussian(mu)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_channels_too_narrow_for_the_grid_are_refused():
    with pytest.raises(ValueError, match=r"more than 10000 channels .* too narrow for cells of 0.25 by 0.25"):
        Channels(Grid(4, 4), width=1e-9).facies(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"amplitude": math.inf}, "amplitude must lie between 0 and 1000 wavelengths, got inf"),
        ({"wavelength": 1e-300}, "amplitude must lie between 0 and 1000 wavelengths"),
        ({"width": math.inf}, "width must be a positive number, got inf"),
        ({"orientation": math.nan}, "orientation is an angle in degrees, got nan"),
        ({"variation": 1.0}, r"variation must lie in \[0, 1\), got 1.0"),
    ],
)
def test_channels_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Channels(Grid(8, 8), **settings)


def test_a_tiny_correlation_length_is_white_noise():
    field = KLE(Grid(6, 5), terms=30, lx=1e-320, ly=1e-320, mode="lognormal", kappa_0=1.0)
    np.testing.assert_allclose(field.eigenvalues, 2.0)


def test_images_with_too_many_pixels_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sparse_langevin.problems.darcy.channels.PIXELS", 99)
    Image.fromarray(np.zeros((10, 10), np.uint8)).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", np.zeros((10, 10)))
    for name in ("a.png", "a.npy"):
        with pytest.raises(ValueError, match=r"it has 100 pixels, and at most 99 are read"):
            read_facies(tmp_path / name)
