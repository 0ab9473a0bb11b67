"""Banks of several chains put together."""

import logging
import pickle

import pytest

from sparse_langevin import PosteriorBank
from tests.posterior.chains import run
from tests.sampling.chains_run import content

PLACES = ("memory", "disk")


def filled(whole, tmp_path, chains, budgets=None, **options):
    """Parts of a bank, one for each chain."""
    parts = []
    for chain in chains:
        part = whole.part(chain, tmp_path / f"part-{chain}", len(chains))
        part.budget = budgets[chain] if budgets else part.budget
        run(part, chain=chain, **options)
        parts.append(part)
    return parts


def bank_in(place, tmp_path, **options):
    return PosteriorBank(thin=5, folder=tmp_path / "whole" if place == "disk" else None, **options)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("precision", ["float16", "full"])
def test_the_whole_is_what_one_bank_would_have_been(place, precision, tmp_path):
    together = PosteriorBank(thin=5, burn_in=10, precision=precision)
    for chain in (0, 1, 2):
        run(together, chain=chain)
    whole = bank_in(place, tmp_path, burn_in=10, precision=precision)
    parts = filled(whole, tmp_path, (0, 1, 2))
    assert [repr(part) for part in parts] == 3 * [repr(whole)]
    whole.join(parts)
    assert content(whole) == content(together) and not whole.verify()
    whole.join(parts)  # once more
    assert content(whole) == content(together)
    if place == "disk":
        assert {p.name for p in (tmp_path / "whole").iterdir()} == {
            p.name for part in parts for p in part.folder.iterdir()
        }


@pytest.mark.parametrize("place", PLACES)
def test_chains_are_thinned_to_the_coarsest_of_their_grids(place, tmp_path, caplog):
    whole = bank_in(place, tmp_path, burn_in=10)
    with caplog.at_level(logging.ERROR):
        parts = filled(whole, tmp_path, (0, 1, 2), budgets=[None, 10_000, 6_000], steps=200)
    assert [part.spacing for part in parts] == [5, 20, 40]
    kept = [one for part in parts for one in content(part) if (one[1] - 10) % 40 == 0]
    whole.join(parts)
    assert whole.spacing == 40 and content(whole) == kept
    assert [one[:2] for one in kept] == [(c, k) for c in range(3) for k in range(50, 201, 40)]


def test_the_budget_is_divided(tmp_path):
    whole = PosteriorBank(thin=5, budget=9_000)
    assert [part.budget for part in filled(whole, tmp_path, (0, 1, 2), steps=5)] == [3_000] * 3


@pytest.mark.parametrize("place", PLACES)
def test_room_is_needed_for_a_chain(place, tmp_path):
    """Samples that are in the whole already must be the part's own, also if it has dropped some of them since."""
    whole = bank_in(place, tmp_path)
    whole.join(filled(whole, tmp_path, (0, 1)))
    for chain in (0, 1):
        assert len(whole.part(chain, tmp_path / f"part-{chain}", 2)) == 8
    with pytest.raises(ValueError, match=r"already holds samples of another run, of chain 1: .*chain=2\)"):
        whole.part(1, tmp_path / "new", 2)
    run(PosteriorBank(thin=5, folder=tmp_path / "other"), chain=1, step_size=2e-3)
    with pytest.raises(ValueError, match="samples of another run, of chain 1"):
        whole.part(1, tmp_path / "other", 2)
    later = PosteriorBank(thin=5, folder=tmp_path / "part-1", budget=6_000)
    later.rewind(1, 0, 0)
    run(later, chain=1, steps=200)
    assert later.spacing > 5
    whole.join([whole.part(1, later.folder, 2)])
    assert {s.step % later.spacing for s in whole} == {0}


def test_samples_of_another_model_are_refused(tmp_path):
    whole = PosteriorBank(thin=5)
    run(whole, chain=5, hidden=7)
    with pytest.raises(ValueError, match="samples of another model"):
        whole.join(filled(whole, tmp_path, (0,)))
    assert whole.count(0) == 0


def test_files_are_shared_with_the_parts_or_copied(tmp_path, monkeypatch):
    whole = bank_in("disk", tmp_path)
    (part,) = filled(whole, tmp_path, (0,))
    whole.join([part])
    name = "sample-000-000000005.safetensors"
    assert (whole.folder / name).samefile(part.folder / name)

    def refuse(source, target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    other = PosteriorBank(thin=5, folder=tmp_path / "copies")
    other.join([part])
    assert not (other.folder / name).samefile(part.folder / name)
    assert content(other) == content(whole) == content(part)


def test_banks_can_be_sent_to_other_processes():
    bank = PosteriorBank(thin=5)
    run(bank)
    assert content(pickle.loads(pickle.dumps(bank))) == content(bank)
