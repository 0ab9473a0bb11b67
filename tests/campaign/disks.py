"""Full disks: nothing half-written, one line, and the same command goes on when there is room.

Where file systems may be mounted, the disk is one of a few kilobytes in memory; elsewhere writing fails after as many.
"""

import errno
import os
import subprocess
from functools import partial

from sparse_langevin.storage import artefact, files
from tests.campaign.command import run
from tests.campaign.trials import Trial, require
from tests.campaign.work import WORK, finish, reference

PART = "full disk"
EACH = 5


def trials(random):
    """Disks with room for a random share of what each command writes."""
    shares = {name: [round(random.uniform(0.02, 0.98), 4) for _ in range(EACH)] for name in WORK}
    return [Trial(f"{name}, room for {share}", name, (share,)) for name in WORK for share in shares[name]]


def attempt(ground, scratch, trial):
    """Fill a disk, look at the answer, make room, and give the command again."""
    work, (share,) = WORK[trial.group], trial.facts
    reference(ground, trial.group)
    whole = ground.folder / "reference" / trial.group / work.leaves
    size = sum(p.stat().st_size for p in ([whole] if whole.is_file() else whole.rglob("*")) if p.is_file())
    disk = scratch / "disk"
    disk.mkdir()
    mounted = not subprocess.run(_mount(disk, "2g"), capture_output=True).returncode
    try:
        ground.copy(disk, *work.needs)
        used = sum(p.stat().st_blocks * 512 for p in disk.rglob("*"))
        room = max(4096, int(share * size))
        if mounted:
            subprocess.run(_mount(disk, f"{used + room + 8192}", "remount,"), check=True)
        outcome = run(work.arguments, disk, prepare=None if mounted else partial(_fail_after, room))
        if outcome.code:
            require(outcome.refused, f"exit code {outcome.code}: {outcome.err.strip()[-300:]}")
            require("No space left" in outcome.err or "disk space" in outcome.err, f"it says {outcome.line!r}")
        if mounted:
            subprocess.run(_mount(disk, "2g", "remount,"), check=True)
        finish(ground, disk, trial.group)
        return "refused, then the same bytes" if outcome.code else "there was room"
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def _mount(folder, size, again=""):
    return ["mount", "-t", "tmpfs", "-o", f"{again}size={size}", "tmpfs", str(folder)]


def _fail_after(room):
    """Let all writing of the storage layer fail after so many bytes."""
    left, write = [room], files.write_synced

    def full(path, data):
        left[0] -= len(data)
        if left[0] < 0:
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, data)

    files.write_synced = artefact.write_synced = full
