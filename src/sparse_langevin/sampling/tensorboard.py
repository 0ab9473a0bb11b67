"""Writing the history of a run for TensorBoard."""

from collections.abc import Callable
from pathlib import Path

from sparse_langevin.runtime.extras import require
from sparse_langevin.storage.runs import Record


def event_writer(folder: Path, step: int) -> Callable[[Record], None]:
    """Return a function that adds records to the event files in a folder; events after ``step`` are discarded."""
    writer = require("TensorBoard", "tensorboard", "torch.utils.tensorboard").SummaryWriter(folder, purge_step=step + 1)

    def write(record: Record) -> None:
        for name, value in record.items():
            if name != "step":
                writer.add_scalar(name, value, int(record["step"]))
        writer.flush()

    return write
