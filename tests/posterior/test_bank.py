"""The bank: what goes in comes out, in little space."""

import hashlib
import logging

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.func import functional_call

from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, Pruning, fit, psgld_sa, sgld
from sparse_langevin.posterior import encoding
from sparse_langevin.storage.files import canonical
from tests.posterior.chains import X, Y, flat, make, pruned, run

PLACES = ("memory", "disk")


def bank_in(place, tmp_path, **options):
    return PosteriorBank(folder=tmp_path / "samples" if place == "disk" else None, **options)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_precision_keeps_every_bit(place, dtype, tmp_path):
    bank = bank_in(place, tmp_path, thin=5, burn_in=10, precision="full")
    sampler, vectors = run(bank, dtype=dtype, **pruned())
    assert [s.step for s in bank] == [15, 20, 25, 30, 35, 40]
    for sample in bank:
        assert np.array_equal(flat(sampler, sample), vectors[sample.step])
        assert all(value.dtype == dtype for value in sample.parameters.values())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sixteen_bits_are_off_by_little_of_the_spread(place, dtype, tmp_path):
    """Within 2^-11 of the distance to the first sample, and zeros are exact."""
    bank = bank_in(place, tmp_path, thin=5, burn_in=10)
    sampler, vectors = run(bank, dtype=dtype, **pruned())
    first = vectors[15]
    for sample in bank:
        kept, exact = flat(sampler, sample), vectors[sample.step]
        assert np.array_equal(kept == 0, exact == 0)
        distance = np.abs(exact - first)
        # Below 2^-14 of the largest, float16 numbers are evenly spaced; adding the base rounds once more.
        rounding = 2.0**-11 * distance + 2.0**-39 * distance.max() + torch.finfo(dtype).eps * np.abs(exact)
        assert (np.abs(kept - exact) <= rounding).all()
    assert max(np.abs(vectors[s] - first).max() for s in (20, 40)) > 0.01


@pytest.mark.filterwarnings("ignore:the chain is too warm")
def test_predictions_change_by_little_of_their_spread():
    """By far less than with weights rounded to bfloat16, and less than to float16, where the data are many."""
    torch.manual_seed(0)
    x = 4 * torch.rand(5000, 2) - 2
    y = torch.sin(2 * x[:, :1]) + 0.3 * x[:, 1:] ** 2 + 0.1 * torch.randn(5000, 1)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    exact, half = (PosteriorBank(thin=20, burn_in=1000, precision=precision) for precision in ("full", "float16"))
    sampler = psgld_sa(model, GaussianLikelihood(), num_data=5000, step_size=3e-4, pruning=Pruning(target=0.7, end=500))
    batches = Batches(x, y, batch_size=256)
    fit(sampler, batches, steps=2000, bank=exact, callbacks=[half.collect])

    def outputs(samples, rounded=lambda value: value):
        with torch.no_grad():
            named = ({name: rounded(value) for name, value in s.parameters.items()} for s in samples)
            return torch.stack([functional_call(model, parameters, (x[:500],)) for parameters in named]).double()

    truth = outputs(exact)

    def error(other):
        return float(((other - truth).square().mean(0).sqrt() / truth.std(0)).mean())

    assert error(outputs(half)) < 0.005
    assert error(outputs(half)) < 0.5 * error(outputs(exact, lambda value: value.half().float()))
    assert error(outputs(half)) < 0.1 * error(outputs(exact, lambda value: value.bfloat16().float()))


def test_differences_of_any_size_survive():
    """From subnormal numbers to the largest: the scale is chosen by the largest difference."""
    for size in (1e-42, 1e-30, 1e-6, 1.0, 65504.0, 1e30):
        origin = np.linspace(-1, 1, 1001, dtype=np.float32) * np.float32(min(size, 1.0))
        values = origin + (np.linspace(-1, 1, 1001) * size).astype(np.float32)
        half, exponent = encoding.to_half(values, origin)
        assert half.dtype == np.float16 and np.isfinite(half).all()
        back = encoding.from_half(half, exponent, origin)
        assert np.abs(back - values).max() <= 2.0**-11 * size + 1e-45
    half, exponent = encoding.to_half(origin, origin)
    assert exponent == 0 and not half.any()


def test_only_what_is_not_zero_takes_space(tmp_path):
    """Two bytes a number and one bit a parameter: 100 samples at 70 % zeros take 17 % of their dense size."""
    bank = PosteriorBank(thin=1, burn_in=20, folder=tmp_path)
    sampler, vectors = run(bank, steps=120, hidden=2000, **pruned())
    nonzero, size = np.count_nonzero(vectors[120]), sampler.flat.size
    assert len(bank) == 100
    headers = 1000 * (len(bank) + 2)
    assert bank.nbytes <= 100 * 2 * nonzero + 4 * nonzero + size / 8 + headers
    assert len(list(tmp_path.glob("mask-*"))) == len(list(tmp_path.glob("base-*"))) == 1
    assert bank.nbytes == sum(p.stat().st_size for p in tmp_path.glob("*.safetensors"))


def test_masks_are_written_when_they_change_and_shared(tmp_path):
    bank = PosteriorBank(thin=5, folder=tmp_path)
    with pytest.warns(match="mix denser and sparser"):
        sampler, vectors = run(bank, pruning=pruned(end=21)["pruning"])
    different = {tuple(v != 0) for step, v in vectors.items() if step % 5 == 0}
    assert len(list(tmp_path.glob("mask-*"))) == len(different) > 1
    for sample in bank:
        assert np.array_equal(flat(sampler, sample) == 0, vectors[sample.step] == 0)


def test_files_are_plain_safetensors(tmp_path):
    """Other programs can open them, and a mask is named by the SHA-256 of what is in it."""
    bank = PosteriorBank(thin=20, folder=tmp_path, precision="full", burn_in=10)
    sampler, vectors = run(bank, **pruned())
    values = load_file(tmp_path / "sample-000-000000030.safetensors")["values"]
    assert np.array_equal(values, vectors[30][vectors[30] != 0].astype(np.float32))
    (path,) = tmp_path.glob("mask-*")
    bits = load_file(path)["values"]
    assert np.array_equal(np.unpackbits(bits, bitorder="little")[: sampler.flat.size], vectors[30] != 0)
    facts, _ = encoding.unpack(path.read_bytes())
    text = canonical({"entries": facts["entries"], "dtype": "float32"})
    assert path.stem == "mask-" + hashlib.sha256(text + bits.tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("cycle", "steps"), [(20, [15, 20, 35, 40]), (18, [15, 33]), (17, [15, 32]), (40, [15, 20, 25, 30, 35, 40])]
)
def test_cycles_begin_with_a_burn_in(cycle, steps):
    bank = PosteriorBank(thin=5, burn_in=10, cycle=cycle)
    run(bank)
    assert [s.step for s in bank] == steps


def test_cycles_that_cannot_be():
    for wrong in ({"cycle": 18, "budget": 10**6}, {"cycle": 10}):
        with pytest.raises(ValueError, match=r"cycle must be at least burn_in . thin, and with a budget a multiple"):
            PosteriorBank(thin=5, burn_in=10, **wrong)


def test_samples_carry_delta():
    bank = PosteriorBank(thin=20)
    sampler, _ = run(bank)
    assert list(bank)[-1].delta == sampler.delta != {}


@pytest.mark.parametrize("place", PLACES)
def test_chains_share_a_bank(place, tmp_path):
    bank = bank_in(place, tmp_path, thin=5)
    chains = [run(bank, steps=20, chain=chain) for chain in (0, 1)]
    assert [(s.chain, s.step) for s in bank] == [(c, k) for c in (0, 1) for k in (5, 10, 15, 20)]
    assert bank.count(1) == 4
    for sample in bank:
        sampler, vectors = chains[sample.chain]
        assert flat(sampler, sample) == pytest.approx(vectors[sample.step], abs=1e-3)


@pytest.mark.parametrize("place", PLACES)
def test_two_samplers_with_the_same_number(place, tmp_path):
    """The second is refused at its first step; the first may go on, and so may another one with its state."""
    bank = bank_in(place, tmp_path, thin=5)
    batches = Batches(X, Y, batch_size=8)
    first = make()
    fit(first, batches, steps=10, bank=bank)
    before = [flat(first, sample) for sample in bank]
    second = make()
    where = f"in {tmp_path}/samples" if place == "disk" else "in memory"
    message = f"bank {where} already holds samples of another run, of chain 0: .*number of its own .chain=1."
    with pytest.raises(ValueError, match=message):
        fit(second, batches, steps=10, bank=bank)
    assert second.steps == 1
    fit(first, batches, steps=10, bank=bank)
    assert [s.step for s in bank] == [5, 10, 15, 20]
    assert all(np.array_equal(a, flat(first, b)) for a, b in zip(before, bank, strict=False))
    fit(make(chain=1), batches, steps=10, bank=bank)
    with pytest.raises(ValueError, match=r"of chain 1: .*\(chain=2\)"):
        fit(make(chain=1), batches, steps=10, bank=bank)
    second.load_state_dict(first.state_dict())
    fit(second, batches, steps=5, bank=bank)
    assert [s.step for s in bank if s.chain == 0] == [5, 10, 15, 20, 25]
    with pytest.raises(ValueError, match="another run, of chain 0"):
        fit(first, batches, steps=5, bank=bank)


@pytest.mark.parametrize("place", PLACES)
def test_two_samplers_in_turns(place, tmp_path):
    """Neither has samples when the other begins; also with two banks in one folder."""
    bank = bank_in(place, tmp_path, thin=5)
    other = bank_in(place, tmp_path, thin=5) if place == "disk" else bank
    first, second = make(), make(step_size=2e-3)
    for _ in range(4):
        bank.collect(first, first.step(X, Y))
        other.collect(second, second.step(X, Y))
    bank.collect(first, first.step(X, Y))
    with pytest.raises(ValueError, match="another run, of chain 0"):
        other.collect(second, second.step(X, Y))
    assert len(bank) == 1


@pytest.mark.parametrize("precision", encoding.PRECISIONS)
def test_nothing_but_zeros_no_sparse_layer_and_no_first_sample(precision, tmp_path):
    sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=25, step_size=1e-3, sparse=[])
    bank = PosteriorBank(thin=1, folder=tmp_path / "dense", precision=precision)
    fit(sampler, Batches(X, Y, batch_size=25), steps=3, bank=bank)
    assert [len(s.parameters["weight"].flatten()) for s in bank] == [3, 3, 3]
    with torch.no_grad():
        info = sampler.step(X, Y)
        sampler.flat.vector.zero_()
    zeros = PosteriorBank(thin=1, folder=tmp_path / "zeros", precision=precision)
    zeros.collect(sampler, info)
    (sample,) = zeros
    assert not any(value.any() for value in sample.parameters.values()) and sample.parameters["weight"].shape == (1, 3)
    # The second sample has weights where the first had none.
    zeros.collect(sampler, sampler.step(X, Y))
    assert torch.equal(list(zeros)[1].parameters["weight"], sampler.model.weight) or precision == "float16"
    torch.testing.assert_close(list(zeros)[1].parameters["weight"], sampler.model.weight.detach(), rtol=1e-3, atol=0)


def test_samples_that_are_not_finite_are_refused():
    sampler, bank = make(), PosteriorBank(thin=1)
    info = sampler.step(X, Y)
    with torch.no_grad():
        sampler.flat.vector[0] = torch.nan
    with pytest.raises(FloatingPointError, match="sample of step 1 is not finite"):
        bank.collect(sampler, info)


def test_samples_of_another_model_do_not_go_into_the_same_folder(tmp_path):
    run(PosteriorBank(thin=10, folder=tmp_path))
    with pytest.raises(ValueError, match="holds samples of another model"):
        run(PosteriorBank(thin=10, folder=tmp_path), hidden=7, chain=1)
    with pytest.raises(ValueError, match="holds samples of another run"):
        run(PosteriorBank(thin=10, folder=tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thin": 0}, "thin >= 1"),
        ({"burn_in": -1}, "burn_in >= 0"),
        ({"precision": "float8"}, "precision must be one of float16, full, got 'float8'"),
        ({"budget": 0}, "budget must be a number of bytes, or None for no limit, got 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        PosteriorBank(**options)


@pytest.mark.parametrize("place", PLACES)
def test_a_bank_that_outgrows_its_budget_thins_itself(place, tmp_path, caplog):
    whole = bank_in("memory", tmp_path, thin=5, burn_in=10)
    sampler, _ = run(whole, steps=330, **pruned())
    bank = bank_in(place, tmp_path, thin=5, burn_in=10, budget=whole.nbytes // 3)
    with caplog.at_level(logging.WARNING):
        run(bank, steps=330, **pruned())
    assert [s.step for s in bank] == list(range(30, 331, 20)) and bank.spacing == 20 and bank.thin == 5
    assert bank.nbytes <= whole.nbytes // 3
    assert [r.getMessage().partition(" bytes: ")[2] for r in caplog.records] == [
        f"it dropped every second sample and has {left} left; from now on it takes one every {spacing} steps"
        for left, spacing in ((len_at(caplog, 0), 10), (len_at(caplog, 1), 20))
    ]
    thinned = {s.step: s for s in bank}
    for sample in whole:
        if sample.step in thinned:
            assert np.array_equal(flat(sampler, sample), flat(sampler, thinned[sample.step]))
    if place == "disk":
        assert [s.step for s in PosteriorBank(folder=bank.folder)] == sorted(thinned)


def len_at(caplog, i):
    return int(caplog.records[i].getMessage().split("and has ")[1].split()[0])


def test_all_chains_are_thinned_alike(tmp_path):
    one = PosteriorBank(thin=5, burn_in=10)
    run(one, steps=110, **pruned())
    bank = PosteriorBank(thin=5, burn_in=10, folder=tmp_path, budget=int(1.5 * one.nbytes))
    for chain in (0, 1):
        run(bank, steps=110, chain=chain, **pruned())
    assert [(s.chain, s.step) for s in bank] == [(c, k) for c in (0, 1) for k in range(20, 111, 10)]
    assert len(list(tmp_path.glob("base-*"))) == 2


def test_a_budget_below_one_sample(tmp_path):
    with pytest.raises(ValueError, match=r"a budget of 500 bytes is too small for one sample: give at least \d+"):
        run(PosteriorBank(thin=5, folder=tmp_path, budget=500))


@pytest.mark.parametrize("precision", encoding.PRECISIONS)
def test_rewinding_and_going_on_ends_with_the_same_files(precision, tmp_path):
    """Also when the bank has thinned itself since, so that fewer samples are left than were counted."""

    def fill(name, rewind):
        bank = PosteriorBank(thin=5, burn_in=10, folder=tmp_path / name, budget=5_000, precision=precision)
        sampler = make(**pruned())
        saved = None
        batches = list(Batches(X, Y, batch_size=25))
        for step in range(1, 111):
            bank.collect(sampler, sampler.step(*batches[0]))
            if rewind is not None and step == rewind:
                state = sampler.state_dict()
                saved = state | {"tensors": {n: t.clone() for n, t in state["tensors"].items()}}, bank.count(0)
        if saved is not None:
            bank = PosteriorBank(thin=5, burn_in=10, folder=tmp_path / name, budget=5_000, precision=precision)
            bank.rewind(0, rewind, saved[1])
            assert all(s.step <= rewind for s in bank)
            sampler.load_state_dict(saved[0])
            for _ in range(rewind + 1, 111):
                bank.collect(sampler, sampler.step(*batches[0]))
        return bank, {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()}

    whole, files = fill("whole", None)
    assert whole.spacing > 5
    for rewind in (3, 14, 15, 16, 40, 62, 77, 109):
        assert fill(f"from-{rewind}", rewind)[1] == files


def test_rewinding_a_bank_that_lacks_samples(tmp_path):
    bank = PosteriorBank(thin=5, folder=tmp_path)
    run(bank, steps=40)
    for expected in (5, 7):
        with pytest.raises(RuntimeError, match=f"holds 6 samples up to step 30, .* saved with {expected}"):
            bank.rewind(0, 30, expected)
    (tmp_path / ".writing-sample-000-000000045.safetensors").write_bytes(b"half")
    bank.rewind(0, 30, 6)
    assert [s.step for s in bank] == [5, 10, 15, 20, 25, 30]
    bank.rewind(0, 0, 0)
    assert [p.name for p in tmp_path.iterdir()] == ["artefact.json"]
