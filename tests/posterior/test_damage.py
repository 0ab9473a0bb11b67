"""Damaged files, full disks and crashes: a clear error that names the file, and the rest stays readable."""

import logging
import os
import subprocess
import sys

import pytest

from sparse_langevin import PosteriorBank
from sparse_langevin.posterior import DamagedError
from sparse_langevin.posterior.encoding import Mask
from sparse_langevin.storage.artefact import kind_of
from sparse_langevin.storage.checkpoint import save_checkpoint
from sparse_langevin.storage.errors import MismatchError
from tests.posterior.chains import X, make, pruned, run

SAMPLE = "sample-000-000000020.safetensors"


@pytest.fixture(params=["float16", "full"])
def bank(request, tmp_path):
    bank = PosteriorBank(thin=5, burn_in=10, folder=tmp_path, precision=request.param)
    run(bank, **pruned())
    assert bank.verify() == {} and len(bank) == 6
    return bank


def damage(path, kind):
    data = bytearray(path.read_bytes())
    if kind == "flip":
        data[-len(data) // 4] ^= 16
    path.write_bytes({"flip": data, "truncate": data[:-3], "empty": b"", "foreign": b"\x80\x02}q" * 9}.get(kind, data))
    if kind == "remove":
        path.unlink()


@pytest.mark.parametrize("kind", ["flip", "truncate", "empty", "foreign"])
def test_a_damaged_sample_is_named_and_can_be_skipped(bank, kind, caplog):
    path = bank.folder / SAMPLE
    damage(path, kind)
    with pytest.raises(DamagedError, match=rf"{path} is damaged: .*skip_damaged=True"):
        list(bank)
    with pytest.raises(DamagedError, match=SAMPLE):
        bank.predict(make().model, X)
    assert list(bank.verify()) == [SAMPLE]
    patient = PosteriorBank(folder=bank.folder, skip_damaged=True)
    with caplog.at_level(logging.WARNING):
        assert [s.step for s in patient] == [15, 25, 30, 35, 40]
    assert "the sample of chain 0, step 20 is left out" in caplog.text
    assert patient.predict(make().model, X).mean.shape == (25, 1)
    assert patient.predictive(make().model, X).quantiles([0.5]).shape == (1, 25, 1)


@pytest.mark.parametrize("kind", ["flip", "truncate", "empty", "foreign", "remove"])
@pytest.mark.parametrize("what", ["mask", "base"])
def test_a_damaged_mask_or_base_is_named(bank, what, kind):
    """One chain needs it; the other, which has its own, stays readable."""
    run(PosteriorBank(thin=5, burn_in=10, folder=bank.folder, precision=bank.precision), chain=1, **pruned())
    assert len(bank) == 12
    mine = PosteriorBank(folder=bank.folder)
    if what == "base" and bank.precision == "full":
        assert not list(bank.folder.glob("base-*"))
        return
    if what == "base":
        path = bank.folder / "base-000-000000015.safetensors"
    else:
        digests = {p.name for p in bank.folder.glob("mask-*")}
        used = (bank.folder / "sample-000-000000015.safetensors").read_bytes()
        path = bank.folder / next(name for name in digests if name[5:69].encode() in used)
    damage(path, kind)
    with pytest.raises(DamagedError, match=f"{path.name} is damaged"):
        list(mine)
    assert {n for n in bank.verify() if n.startswith("sample")} == {
        f"sample-000-{s:09d}.safetensors" for s in range(15, 41, 5)
    }
    assert (path.name in bank.verify()) == (kind != "remove")
    assert {s.chain for s in PosteriorBank(folder=bank.folder, skip_damaged=True)} == {1}


def test_every_single_bit_is_covered(tmp_path):
    """No flipped bit goes unnoticed, unless the file still means the same."""
    bank = PosteriorBank(thin=5, burn_in=30, folder=tmp_path)
    run(bank, hidden=4, steps=40, **pruned())
    before = {s.step: s for s in bank}
    for path in sorted(tmp_path.iterdir()):
        original = path.read_bytes()
        for position in range(0, 8 * len(original), 5):
            data = bytearray(original)
            data[position // 8] ^= 1 << position % 8
            path.write_bytes(data)
            try:
                samples = list(bank)
            except DamagedError:
                continue
            for sample in samples:
                same = before[sample.step]
                assert (sample.weight, sample.sigma, sample.chain) == (same.weight, same.sigma, same.chain)
                assert all((value == same.parameters[name]).all() for name, value in sample.parameters.items())
        path.write_bytes(original)


def test_files_that_changed_places_are_noticed(bank):
    other = bank.folder / "sample-000-000000025.safetensors"
    (bank.folder / SAMPLE).write_bytes(other.read_bytes())
    assert bank.verify() == {SAMPLE: "it holds another sample than its name says"}


def test_a_base_of_another_run_is_noticed(tmp_path):
    for name, size in (("a", 1e-3), ("b", 2e-3)):
        run(PosteriorBank(thin=5, burn_in=10, folder=tmp_path / name), step_size=size, **pruned())
    base = "base-000-000000015.safetensors"
    for path in (tmp_path / "b").glob("mask-*"):
        (tmp_path / "a" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "a" / base).write_bytes((tmp_path / "b" / base).read_bytes())
    with pytest.raises(DamagedError, match="not the base that the samples were made with"):
        list(PosteriorBank(folder=tmp_path / "a"))


def test_a_full_disk_leaves_the_rest_readable(bank, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    names = sorted(p.name for p in bank.folder.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        later = PosteriorBank(thin=5, burn_in=10, folder=bank.folder, precision=bank.precision)
        with pytest.raises(OSError, match=r"No space left on device; earlier samples are intact.*budget"):
            run(later, chain=1, **pruned())
    assert sorted(p.name for p in bank.folder.iterdir()) == names
    assert len(list(bank)) == 6 and bank.verify() == {}


FULL = """
import subprocess, sys
sys.path.insert(0, {root!r})
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", {folder!r}], check=True)
from sparse_langevin import PosteriorBank
from sparse_langevin.storage.artefact import kind_of
from sparse_langevin.storage.checkpoint import save_checkpoint
from sparse_langevin.storage.errors import MismatchError
from tests.posterior.chains import run
bank = PosteriorBank(thin=1, folder={folder!r})
try:
    run(bank, steps=100, hidden=400)
except OSError as error:
    assert error.errno == 28, error
    assert len(list(bank)) == len(bank) > 3 and bank.verify() == {{}}
    print("full after", len(bank), error)
"""


def test_a_disk_that_is_really_full(tmp_path):
    """On a file system of 64 kB, in a mount namespace of its own."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no mount namespaces")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    script = FULL.format(root=root, folder=str(tmp_path))
    result = subprocess.run(["unshare", "-rm", sys.executable, "-c", script], capture_output=True, text=True)
    if "mount" in result.stderr and "CalledProcessError" in result.stderr:
        pytest.skip("this machine allows no mounts")
    assert "full after" in result.stdout and "No space left on device; earlier samples are intact" in result.stdout, (
        result
    )


def test_what_a_crash_leaves_behind_is_ignored_and_removed(bank):
    leftover = bank.folder / ".writing-sample-001-000000015.safetensors"
    leftover.write_bytes(b"half")
    assert len(bank) == 6 and bank.verify() == {}
    run(PosteriorBank(thin=5, burn_in=10, folder=bank.folder, precision=bank.precision), chain=1, **pruned())
    assert not leftover.exists()


def test_a_folder_of_another_kind_is_refused(bank, tmp_path):
    save_checkpoint(tmp_path / "run", 1, {"a": X}, {})
    with pytest.raises(MismatchError, match=r"is a checkpoint made by .*, not a bank"):
        PosteriorBank(folder=tmp_path / "run" / "step-000000001")
    assert kind_of(bank.folder) == "bank"
    (bank.folder / "artefact.json").unlink()  # as in earlier versions
    assert len(list(PosteriorBank(folder=bank.folder))) == 6
    (bank.folder / "artefact.json").write_text("{}")
    with pytest.raises(DamagedError, match=r"artefact.json is damaged.*or delete it: samples have checksums"):
        PosteriorBank(folder=bank.folder)


INTRUDER = """
import sys
sys.path.insert(0, {root!r})
from sparse_langevin import PosteriorBank
from sparse_langevin.storage.artefact import kind_of
from sparse_langevin.storage.checkpoint import save_checkpoint
from sparse_langevin.storage.errors import MismatchError
from tests.posterior.chains import run
run(PosteriorBank(thin=5, folder={folder!r}), steps=10, chain=3)
"""


def test_two_processes_may_not_share_a_bank(tmp_path):
    """The second one would remove what the first is about to write."""
    bank = PosteriorBank(thin=5, folder=tmp_path)
    run(bank, steps=10)
    live = bank.folder / ".writing-sample-000-000000045.safetensors"
    live.write_bytes(b"half")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = [sys.executable, "-c", INTRUDER.format(root=root, folder=str(bank.folder))]
    result = subprocess.run(command, capture_output=True, text=True)
    assert "LockedError: another process is running in" in result.stderr
    assert live.exists() and len(bank) == 2
    del bank  # nobody in this process has it any more
    subprocess.run(command, check=True)
    assert len(PosteriorBank(folder=tmp_path)) == 4 and not live.exists()


def test_a_crash_between_base_and_sample(tmp_path):
    """The orphaned base is replaced by the next run's."""
    run(PosteriorBank(thin=5, folder=tmp_path), steps=5)
    (tmp_path / "sample-000-000000005.safetensors").unlink()
    bank = PosteriorBank(thin=5, folder=tmp_path)
    run(bank, steps=10, step_size=2e-3)
    assert len(list(bank)) == 2 and len(list(tmp_path.glob("base-*"))) == 1


def test_a_damaged_record_of_the_thinning_is_named(tmp_path):
    whole = PosteriorBank(thin=5, burn_in=10)
    run(whole, steps=110, **pruned())
    bank = PosteriorBank(thin=5, burn_in=10, folder=tmp_path, budget=whole.nbytes // 2)
    run(bank, steps=110, **pruned())
    assert bank.verify() == {}
    damage(tmp_path / "thinning.safetensors", "truncate")
    assert list(bank.verify()) == ["thinning.safetensors"]
    with pytest.raises(DamagedError, match=r"thinning.safetensors is damaged"):
        len(bank)


def test_a_mask_for_more_than_it_holds_takes_no_memory():
    mask = Mask((("weight", (10**12,)),), "float32", b"")
    with pytest.raises(ValueError, match="it has 0 bytes for 1000000000000 parameters"):
        Mask.decode(mask.encode(), mask.digest)
