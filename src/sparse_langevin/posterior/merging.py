"""One bank of the samples that several processes have put into banks of their own, one for each chain.

Names of files say the chain, so nothing is renamed. Each part has thinned itself on a grid of its own; all these grids
have the same offset and spacings of thin times a power of two, so that the coarsest is in all of them. It becomes the
grid of the whole, whose chains are thinned alike. Each of m parts has an m-th of the budget, so the whole fits into it.
"""

from collections.abc import Sequence

from sparse_langevin.posterior.reading import Reader
from sparse_langevin.posterior.store import THINNING, Store, digests
from sparse_langevin.posterior.thinning import kept, read_spacing, write_spacing


def holds_only(store: Store, part: Store, chain: int) -> bool:
    """Whether all samples of a chain in the store are the part's, which may have dropped some to stay in its budget."""
    grid = read_spacing(part)
    for place in kept(store, chain):
        name = place.name("sample")
        if grid is not None and not grid.has(place.step):
            continue
        if not part.has(name) or bytes(part.read(name)) != bytes(store.read(name)):
            return False
    return True


def merge(store: Store, parts: Sequence[Store]) -> None:
    """Put the files of all parts into the store; a crash leaves samples that can be read, and it can be done again."""
    whole = next(iter(digests(store.sizes())), None)
    for part in parts:
        found = digests(part.sizes())
        if whole and found and not Reader(store).mask(whole).same_model(Reader(part).mask(found[0])):
            raise ValueError("the bank already holds samples of another model: give a bank of its own")
    grids = [grid for one in (store, *parts) if (grid := read_spacing(one)) is not None]
    for part in parts:
        for name in sorted(part.sizes().keys() - {THINNING}):  # bases and masks before the samples that need them
            store.adopt(name, part)
    if grids:
        write_spacing(store, max(grids, key=lambda grid: grid.spacing))
