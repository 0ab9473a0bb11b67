r"""A bank of posterior samples, thinned and weighted by step size, in memory or on disk.

With decreasing steps the posterior mean of phi is estimated by sum_k eps_k phi(beta_k) / sum_k eps_k; each sample
therefore carries the step size it was drawn with. Only nonzero values are kept (see `encoding`), in files that are
written under a temporary name and renamed (see `store`), so a crash loses at most the sample being written.
"""

import itertools
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from sparse_langevin.posterior.encoding import PRECISIONS, Base, Mask, Precision, Sample, Values, pack, to_half, unpack
from sparse_langevin.posterior.merging import holds_only, merge
from sparse_langevin.posterior.predictive import Prediction, Predictive
from sparse_langevin.posterior.probabilities import Classification, classify
from sparse_langevin.posterior.reading import Reader, damaged
from sparse_langevin.posterior.store import FolderStore, MemoryStore, Place, Store, digests, mask_name, places
from sparse_langevin.posterior.thinning import Spacing, kept, read_spacing, remove_unused, write_spacing
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.storage.errors import DamagedError, StorageError

logger = logging.getLogger(__name__)


class PosteriorBank:
    """Collects every ``thin``-th sample after ``burn_in`` steps.

    Parameters
    ----------
    thin
        Steps between samples.
    burn_in
        Number of initial steps in which no sample is taken.
    cycle
        Length of a cycle in steps, for step sizes with cycles: ``burn_in`` and ``thin`` then count within each cycle.
    folder
        Folder for the samples; None keeps them in memory. A run with checkpoints needs a folder. Chains of the same
        process may share a bank, with numbers of their own (``chain=1``, ...); different processes may not, except
        through `fit_chains`.
    precision
        ``"float16"`` keeps differences to the chain's first sample in 16 bits, with a relative error of at most 1/2000;
        ``"full"`` keeps every bit, in twice the space.
    budget
        Largest size of the bank in bytes; None for no limit. When the bank would exceed it, it drops every second
        sample of every chain, and from then on takes half as many. With a budget, ``cycle`` must be a multiple of
        ``thin``.
    skip_damaged
        Leave out samples that cannot be read, with a line in the log, instead of raising an error.

    Examples
    --------
    >>> bank = PosteriorBank(thin=2)
    >>> sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=10, step_size=1e-4)
    >>> for _ in range(10):
    ...     bank.collect(sampler, sampler.step(torch.ones(10, 3), torch.ones(10, 1)))
    >>> len(bank)
    5
    """

    def __init__(
        self,
        *,
        thin: int = 10,
        burn_in: int = 0,
        cycle: int | None = None,
        folder: str | Path | None = None,
        precision: Precision = "float16",
        budget: int | None = None,
        skip_damaged: bool = False,
    ) -> None:
        if thin < 1 or burn_in < 0:
            raise ValueError(f"PosteriorBank needs thin >= 1 and burn_in >= 0, got thin={thin!r}, burn_in={burn_in!r}")
        if precision not in PRECISIONS:
            raise ValueError(f"PosteriorBank.precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
        if budget is not None and budget < 1:
            raise ValueError(f"PosteriorBank.budget must be a number of bytes, or None for no limit, got {budget!r}")
        if cycle is not None and (cycle < burn_in + thin or (budget is not None and cycle % thin)):
            raise ValueError(
                f"PosteriorBank.cycle must be at least burn_in + thin, and with a budget a multiple of thin, got "
                f"cycle={cycle!r}, thin={thin!r}, burn_in={burn_in!r}"
            )
        self.thin, self.burn_in, self.cycle, self.precision, self.budget = thin, burn_in, cycle, precision, budget
        self.skip_damaged = skip_damaged
        self.folder = Path(folder) if folder is not None else None
        self._store: Store = MemoryStore() if self.folder is None else FolderStore(self.folder)
        self._opened: set[int] = set()
        self._bases: dict[int, Base] = {}
        self._seen: dict[int, weakref.ref[Sampler]] = {}

    def __repr__(self) -> str:
        # A resumed run must have the same text. The budget is not in it, so that one can be added if the disk is small.
        precision = "" if self.precision == "float16" else f", precision={self.precision!r}"
        cycle = "" if self.cycle is None else f", cycle={self.cycle}"
        return f"PosteriorBank(thin={self.thin}, burn_in={self.burn_in}{cycle}{precision})"

    @property
    def spacing(self) -> int:
        """Current number of steps between samples: ``thin``, doubled each time the bank exceeded its budget."""
        grid = read_spacing(self._store)
        return grid.spacing if grid is not None else self.thin

    @property
    def nbytes(self) -> int:
        """Size of the bank in bytes."""
        return sum(self._store.sizes().values())

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_seen": {}}

    def collect(self, sampler: Sampler, info: Info) -> None:
        """Take a sample if one is due after this step."""
        self._meet(sampler, info.step)
        step = info.step if self.cycle is None else (info.step - 1) % self.cycle + 1
        if step <= self.burn_in or (step - self.burn_in) % self.thin:
            return
        place = Place(sampler.chain, info.step)
        if not self._keeps(info.step) and not self._lacks_base(place.chain):
            return
        vector = sampler.flat.vector.detach().cpu().numpy()
        if not np.isfinite(vector).all():
            raise FloatingPointError(f"the sample of step {info.step} is not finite: use a smaller step size")
        mask = Mask.of(sampler.flat, vector)
        self._open(place, mask)
        about: dict[str, object] = {"chain": place.chain, "step": place.step}
        about |= {"weight": info.step_size, "sigma": sampler.sigma, "delta": sampler.delta}
        about["noise"] = sampler.noise_std
        about |= {"batch_norms": sampler.batch_norms} if sampler.batch_norms else {}
        while True:
            files = self._encode(place, mask, vector[mask.positions], about)
            if self.budget is None or self.nbytes + sum(map(len, files.values())) <= self.budget:
                break
            if not len(self):
                needed = self.nbytes + sum(map(len, files.values()))
                raise ValueError(f"a budget of {self.budget} bytes is too small for one sample: give at least {needed}")
            self._drop_every_second()
        for name, data in files.items():
            self._store.write(name, data)

    def __len__(self) -> int:
        return len(kept(self._store))

    def __iter__(self) -> Iterator[Sample]:
        reader = Reader(self._store)
        for place in kept(self._store):
            try:
                yield reader.sample(place)
            except DamagedError as error:
                if not self.skip_damaged:
                    raise
                logger.warning("the sample of chain %s, step %s is left out: %s", *place, error)

    def count(self, chain: int) -> int:
        """Return the number of samples of one chain."""
        return len(kept(self._store, chain))

    def rewind(self, chain: int, step: int, expected: int) -> None:
        """Discard the samples of a chain that were taken after ``step``; a run resumed there takes them again.

        ``expected`` is what `count` was at that step. This number, halved for each time that the bank has dropped every
        second sample since then, must remain.
        """
        held = sum(place.step <= step for place in kept(self._store, chain))
        doublings = range((self.spacing // self.thin).bit_length())
        if not any(expected >> d <= held <= -(-expected >> d) for d in doublings):
            raise StorageError(
                f"the posterior bank in {self.folder} holds {held} samples up to step {step}, but the checkpoint was "
                f"saved with {expected}: give the bank of this run, restore its files, or start the run in a new folder"
            )
        self._store.sweep()
        for kind in ("sample", "base"):
            for place in places(self._store.sizes(), kind, chain):
                if place.step > step:
                    self._store.remove(place.name(kind))
        self._bases.pop(chain, None)
        remove_unused(self._store)

    def part(self, chain: int, folder: Path, chains: int) -> "PosteriorBank":
        """Return a bank with the same settings for one of several chains, to be filled by a process of its own.

        Parameters
        ----------
        chain
            Number of the chain. This bank may hold no samples of it, except those that are in ``folder``, too.
        folder
            Folder of the new bank.
        chains
            Number of chains, among which the budget is divided.
        """
        budget = None if self.budget is None else max(1, self.budget // chains)
        part = PosteriorBank(
            thin=self.thin,
            burn_in=self.burn_in,
            cycle=self.cycle,
            folder=folder,
            precision=self.precision,
            budget=budget,
            skip_damaged=self.skip_damaged,
        )
        if not holds_only(self._store, part._store, chain):
            raise self._occupied(chain)
        self._store.own()
        return part

    def join(self, parts: "Sequence[PosteriorBank]") -> None:
        """Take in the samples of other banks, whose chains have numbers of their own; thin all alike."""
        merge(self._store, [part._store for part in parts])

    def verify(self) -> dict[str, str]:
        """Read every file; return what is wrong with each damaged one, by name."""
        return damaged(self._store)

    def predictive(self, model: nn.Module, inputs: object, **options: Any) -> Predictive:
        """Return the posterior predictive distribution at some inputs: moments, quantiles, draws. See `Predictive`."""
        return Predictive(self, model, inputs, **options)

    def predict(
        self,
        model: nn.Module,
        inputs: object,
        *,
        transform: Callable[[Tensor], Tensor] | None = None,
        batch_size: int | None = None,
        statistics: Any = None,
    ) -> Prediction:
        """Average the model's output over the samples, in eval mode; memory does not grow with their number.

        Parameters
        ----------
        model
            The model that was sampled.
        inputs
            A tensor, a tuple of positional inputs, or a mapping of named inputs.
        transform
            A function applied to each output before averaging. For class probabilities see `classify`.
        batch_size
            Number of examples in one call of the model; None for all at once.
        statistics
            Training inputs, for models that were sampled with BatchNorm in training mode. See `Predictive`.
        """
        options = {"transform": transform, "batch_size": batch_size, "statistics": statistics}
        return self.predictive(model, inputs, **options).moments()

    def classify(
        self, model: nn.Module, inputs: object, *, batch_size: int | None = None, statistics: Any = None
    ) -> Classification:
        """Return class probabilities and their uncertainty, for a model whose outputs are logits (n, classes, ...).

        The probabilities are averages of softmax over the samples, weighted by step size. The parameters are those of
        `predict`.

        Examples
        --------
        >>> bank, model = PosteriorBank(thin=1), nn.Linear(3, 4)
        >>> sampler = sgld(model, CategoricalLikelihood(), num_data=10, step_size=1e-4)
        >>> for _ in range(5):
        ...     bank.collect(sampler, sampler.step(torch.ones(10, 3), torch.zeros(10, dtype=torch.long)))
        >>> made = bank.classify(model, torch.ones(2, 3))
        >>> made.probabilities.shape, made.entropy.shape, made.samples
        (torch.Size([2, 4]), torch.Size([2]), 5)
        """
        return classify(self, model, inputs, batch_size=batch_size, statistics=statistics)

    def _keeps(self, step: int) -> bool:
        """Whether samples of this step are kept, given the budget."""
        grid = read_spacing(self._store)
        return grid is None or grid.has(step)

    def _meet(self, sampler: Sampler, step: int) -> None:
        """At the first step of a sampler, raise an error if another one has been there with the chain's number."""
        known = self._seen.get(sampler.chain)
        if known is not None and known() is sampler:
            return
        # One that goes on with a chain, after a `rewind` or with the state of another sampler, finds earlier samples.
        taken = places(self._store.sizes(), "sample")
        if any(place.step >= step for place in taken if place.chain == sampler.chain):
            raise self._occupied(sampler.chain)
        self._seen[sampler.chain] = weakref.ref(sampler)

    def _occupied(self, chain: int) -> ValueError:
        taken = {place.chain for place in places(self._store.sizes(), "sample")}
        free = next(number for number in itertools.count() if number not in taken)
        return ValueError(
            f"the bank {f'in {self.folder}' if self.folder else 'in memory'} already holds samples of another run, of "
            f"chain {chain}: give the second sampler a number of its own (chain={free}), or a bank of its own"
        )

    def _open(self, place: Place, mask: Mask) -> None:
        """Before a chain's first sample, raise an error if the folder holds samples of another run or model."""
        if place.chain in self._opened:
            return
        self._store.sweep()
        names = self._store.sizes()
        if any(other.step >= place.step for other in places(names, "sample", place.chain)):
            raise self._occupied(place.chain)  # another bank of this process has put them into the folder since
        for other in places(names, "base", place.chain):
            if other.step >= place.step:  # a crash came after it was written and before its sample was
                self._store.remove(other.name("base"))
        found = digests(names)
        if found and not Reader(self._store).mask(found[0]).same_model(mask):
            raise ValueError(f"{self.folder} already holds samples of another model: choose another folder")
        self._opened.add(place.chain)

    def _lacks_base(self, chain: int) -> bool:
        known = self._bases.get(chain)
        if self.precision == "full" or (known and self._store.has(Place(chain, known.step).name("base"))):
            return False
        return not places(self._store.sizes(), "base", chain)

    def _encode(self, place: Place, mask: Mask, values: Values, about: dict[str, object]) -> dict[str, bytes]:
        """Return the files to write for a sample, in an order in which a crash between two of them does no harm."""
        files: dict[str, bytes] = {}
        if not self._store.has(mask_name(mask.digest)):
            files[mask_name(mask.digest)] = mask.encode()
        if self._lacks_base(place.chain):
            # Written even if the sample itself is dropped: a resumed run must find the same base.
            data = pack({"chain": place.chain, "step": place.step, "mask": mask.digest}, values)
            files[place.name("base")] = data
            self._bases[place.chain] = Base(place.step, values, mask, unpack(data)[0]["crc32"])
        if self._keeps(place.step):
            facts: dict[str, object] = {**about, "mask": mask.digest, "base": None}
            if self.precision == "float16":
                base = self._base(place.chain)
                values, exponent = to_half(values, base.at(mask))
                facts |= {"base": base.step, "base_crc": base.crc, "exponent": exponent}
            files[place.name("sample")] = pack(facts, values)
        return files if place.name("sample") in files or place.name("base") in files else {}

    def _base(self, chain: int) -> Base:
        if chain not in self._bases:
            self._bases[chain] = Reader(self._store).base(places(self._store.sizes(), "base", chain)[0])
        return self._bases[chain]

    def _drop_every_second(self) -> None:
        spacing = 2 * self.spacing
        write_spacing(self._store, Spacing(self.burn_in, spacing))
        logger.warning(
            "the posterior bank would exceed its budget of %s bytes: it dropped every second sample and has %s left; "
            "from now on it takes one every %s steps",
            *(self.budget, len(self), spacing),
        )
