"""Reading samples from a store: each combines its own file, its mask and the base of its chain."""

from collections.abc import Callable
from functools import partial

from sparse_langevin.posterior.encoding import Base, Mask, Sample, Values, from_half, unpack
from sparse_langevin.posterior.store import THINNING, Place, Store, blaming, digests, mask_name, places
from sparse_langevin.posterior.thinning import read_spacing
from sparse_langevin.storage.errors import DamagedError


class Reader:
    """Reads samples one by one; keeps the last mask and the last base, which neighbouring samples share."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mask: Mask | None = None
        self._base: Base | None = None
        self._origin: tuple[str, int, Values] | None = None

    def sample(self, place: Place) -> Sample:
        """Read one sample; the error for a damaged one names the file at fault."""
        with blaming(self._store, name := place.name("sample")):
            facts, values = unpack(self._store.read(name))
            about = {key: facts[key] for key in ("chain", "step", "weight", "sigma")}
            if Place(about["chain"], about["step"]) != place:
                raise ValueError("it holds another sample than its name says")
            mask = self.mask(facts["mask"])
            if facts["base"] is not None:
                origin = self._origin_at(mask, Place(place.chain, facts["base"]), facts["base_crc"])
                values = from_half(values, facts["exponent"], origin)
            latent = {key: facts[key] for key in ("delta", "noise") if key in facts}
            norms = tuple(facts.get("batch_norms", ()))
            return Sample(**about, parameters=mask.parameters(values), **latent, batch_norms=norms)

    def mask(self, digest: str) -> Mask:
        """Read the mask with this digest."""
        if self._mask is None or self._mask.digest != digest:
            with blaming(self._store, name := mask_name(digest)):
                self._mask = Mask.decode(self._store.read(name), digest)
        return self._mask

    def base(self, place: Place) -> Base:
        """Read the base of a chain."""
        with blaming(self._store, name := place.name("base")):
            facts, values = unpack(self._store.read(name))
            if Place(facts["chain"], facts["step"]) != place:
                raise ValueError("it holds another base than its name says")
            return Base(place.step, values.copy(), self.mask(facts["mask"]), facts["crc32"])

    def _origin_at(self, mask: Mask, place: Place, crc: int) -> Values:
        """Return the values of the base where a sample is not zero; cached for the next samples with the same mask."""
        if self._origin is None or self._origin[:2] != (mask.digest, crc):
            if self._base is None or self._base.crc != crc:
                self._base = self.base(place)
                self._mask = mask
            with blaming(self._store, place.name("base")):
                if self._base.crc != crc:
                    raise ValueError("it is not the base that the samples were made with")
            self._origin = (mask.digest, crc, self._base.at(mask))
        return self._origin[2]


def damaged(store: Store) -> dict[str, str]:
    """Read every file; return what is wrong with each damaged one, by name."""
    reader, names, found = Reader(store), store.sizes(), {}
    checks: dict[str, Callable[[], object]] = {THINNING: partial(read_spacing, store)}
    for digest in digests(names):
        checks[mask_name(digest)] = partial(reader.mask, digest)
    for place in places(names, "base"):
        checks[place.name("base")] = partial(reader.base, place)
    for place in places(names, "sample"):
        checks[place.name("sample")] = partial(reader.sample, place)
    for name, check in checks.items():
        try:
            check()
        except DamagedError as error:
            found[name] = error.reason
    return found
