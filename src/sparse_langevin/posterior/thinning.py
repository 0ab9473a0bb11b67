"""Which samples a bank that outgrew its budget still has, and files that nothing refers to any more.

A bank that was thinned keeps the samples of steps ``offset + j * spacing`` only. The numbers are on disk before the
first sample goes; those that are not on the grid do not count from then on, whether a crash left them there or not.
"""

from typing import NamedTuple

import numpy as np

from sparse_langevin.posterior.encoding import DAMAGE, mask_of, pack, unpack
from sparse_langevin.posterior.store import THINNING, Place, Store, blaming, digests, mask_name, places


class Grid(NamedTuple):
    """Steps at which there are samples."""

    offset: int
    spacing: int

    def has(self, step: int) -> bool:
        """Whether a sample of this step is kept."""
        return (step - self.offset) % self.spacing == 0


def read_grid(store: Store) -> Grid | None:
    """The grid of a bank that was thinned; None if it has all its samples."""
    if not store.has(THINNING):
        return None
    with blaming(store, THINNING):
        facts, _ = unpack(store.read(THINNING))
        return Grid(facts["offset"], facts["spacing"])


def write_grid(store: Store, grid: Grid) -> None:
    """Enter the grid, then remove what is not on it."""
    store.write(THINNING, pack(grid._asdict(), np.zeros(0, np.uint8)))
    remove_unused(store)


def kept(store: Store, chain: int | None = None) -> list[Place]:
    """The samples on the grid, of all chains or of one, by chain and step."""
    grid = read_grid(store)
    return [place for place in places(store.sizes(), "sample", chain) if grid is None or grid.has(place.step)]


def remove_unused(store: Store) -> None:
    """Remove samples that are not on the grid, and masks that nothing refers to."""
    wanted = {place.name("sample") for place in kept(store)}
    for place in places(store.sizes(), "sample"):
        if place.name("sample") not in wanted:
            store.remove(place.name("sample"))
    names = store.sizes()
    wanted |= {place.name("base") for place in places(names, "base")}
    try:
        used = {mask_name(mask_of(store.read(name))) for name in wanted}
    except DAMAGE:
        return  # whose mask it was cannot be known
    for digest in digests(names):
        if mask_name(digest) not in used:
            store.remove(mask_name(digest))
