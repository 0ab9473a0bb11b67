"""What the campaign works on: small data sets, runs and models, made once, by the commands themselves.

data/kle  data/mine      data sets of Darcy flow and of arrays
runs/kle  runs/mine      finished runs with samples, two chains and one, recalibrated
runs/half                a run that was stopped: it has checkpoints
small                    an exported model
kappa.npy x.npy y.npy    inputs to predict from, and what was imported
table.csv                a table to select from
"""

import shutil
from functools import cached_property
from pathlib import Path

import numpy as np

from tests.campaign.command import Command, run

DARCY = ("--method", "psgld-sa", "--sparsity", "0.5", "--samples", "4", "--batch-size", "8", "--validation", "0.2")
TINY = ("--network", "darcy-encoder-decoder", "--network-option", "channels=[2,2,2,2]", "--network-option", "code=3")
TINY = (*TINY, "--network-option", "hidden=8")
MLP = ("--network", "mlp", "--network-option", "width=8", "--network-option", "depth=2")
MAKE = {
    "generate": ("generate", "kle", "--out", "data/kle", "--samples", 40, "--nx", 8, "--ny", 6, "--terms", 4),
    "import": ("import", "--inputs", "x.npy", "--outputs", "y.npy", "--out", "data/mine", "--seed", 1),
    "train": ("train", "--data", "data/mine", "--run", "runs/mine", "--epochs", 6, *DARCY, *MLP),
    "train --chains": ("train", "--data", "data/kle", "--run", "runs/kle", "--chains", 2, "--epochs", 4, *DARCY, *TINY),
    "export": ("export", "runs/mine", "--out", "small"),
}


class Ground:
    """A folder with all of it; trials take copies."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def make(self):
        """Make what is missing."""
        done = self.folder / "done"
        if done.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        write_inputs(self.folder)
        for arguments in MAKE.values():
            self._run(*arguments)
        self._run("evaluate", "runs/kle")
        self._run("evaluate", "runs/mine")
        half = [str(word).replace("runs/mine", "runs/half") for word in MAKE["train"]]
        half[half.index("--epochs") + 1] = "4000"
        with Command(half, self.folder) as command:
            while len(list(self.folder.glob("runs/half/checkpoints/step-*"))) < 2:
                command.process.join(0.02)
        done.touch()

    def _run(self, *arguments):
        outcome = run(arguments, self.folder)
        assert outcome.code == 0, (arguments, outcome)

    def copy(self, to, *names):
        """Copy some of it to a folder."""
        for name in names:
            source, target = self.folder / name, Path(to) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)

    @cached_property
    def files(self):
        """All files, relative to the folder."""
        found = [p.relative_to(self.folder) for p in self.folder.rglob("*") if p.is_file() and p.name[0] != "."]
        return sorted(path for path in found if path.name != "done")


def write_inputs(folder):
    """Write arrays and a table, the same every time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1))
    np.save(folder / "kappa.npy", np.exp(rng.standard_normal((2, 6, 8)) / 3))
    table = np.column_stack([x, 2 * x[:, 0] + rng.standard_normal(60) / 3])
    np.savetxt(folder / "table.csv", table, delimiter=",", header="a,b,c,y", comments="")
