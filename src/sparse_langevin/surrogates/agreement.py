"""Whether the chains of a run agree: R-hat, effective draws and figures of what they say about predictions."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.func import functional_call

from sparse_langevin.posterior.diagnostics import Array, ess, ess_tail, mcse, rhat, verdict
from sparse_langevin.posterior.figures import autocorrelation_figure, rank_figure, trace_figure
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.reports.page import Picture, Table, number, png
from sparse_langevin.surrogates.runs import SurrogateRun

FIELDS = 3  # test fields whose velocities are followed
EDGES = 300  # of each, evenly spread
DELTA = "delta of "


@dataclass(frozen=True)
class Agreement:
    """What the samples of a run's chains say about their convergence."""

    traces: dict[str, Array]
    """(chains, draws) of sigma, of the inclusion probabilities, and of the least certain velocity in some fields."""
    rhat: Array
    """Of velocities all over these fields."""
    verdict: list[str]
    """In plain words."""

    def table(self) -> Table:
        """One row for each quantity."""
        rows = [
            (
                name,
                number(float(draws.mean()), 5),
                number(float(draws.std(ddof=1)), 5),
                number(float(rhat(draws)), 3),
                number(float(ess(draws)), 0),
                number(float(ess_tail(draws)), 0),
                number(float(mcse(draws)), 5),
            )
            for name, draws in self.traces.items()
        ]
        chains, draws = next(iter(self.traces.values())).shape
        middle, high = np.nanquantile(self.rhat, (0.5, 0.95)) if np.isfinite(self.rhat).any() else (np.nan, np.nan)
        caption = (
            f"{chains} chain{'s' if chains > 1 else ''} of {draws} draws. Velocities are the least certain of their "
            f"fields. R-hat of {self.rhat.size} velocities of "
            f"{len(self.rhat)} test fields: median {middle:.3f}, 95 % are below {high:.3f}."
        )
        columns = ("", "mean", "deviation", "R-hat", "bulk ESS", "tail ESS", "Monte Carlo error")
        return Table(columns, rows, caption)

    def pictures(self) -> list[Picture]:
        """Traces, ranks where there are several chains, and autocorrelations; of sigma and the velocities."""
        shown = {name: draws for name, draws in self.traces.items() if not name.startswith(DELTA)}
        drawn = [(trace_figure, "Traces: each quantity from draw to draw.")]
        if len(next(iter(self.traces.values()))) > 1:
            drawn.append((rank_figure, "Ranks of each chain's draws among those of all chains."))
        drawn.append((autocorrelation_figure, "Autocorrelation: how long a chain remembers."))
        return [Picture(png(draw(shown)), text) for draw, text in drawn]


def agreement(run: SurrogateRun, data: DarcyData) -> Agreement | None:
    """Diagnose the samples of a run and its chains; None if a chain has kept fewer than 4.

    Weights cannot be compared between chains, as a network's units can trade places: predictions can.
    """
    samples = run.samples()
    if min(map(len, samples.banks)) < 4:
        return None
    surrogate = run.surrogate()
    maps = surrogate.normalisation
    inputs = maps.encode_kappa(torch.from_numpy(data.array("kappa", "test")[:FIELDS]).float())
    chosen = torch.linspace(0, data.grid.edges - 1, min(EDGES, data.grid.edges)).round().long()
    latent: dict[str, dict[int, list[float]]] = {}
    velocities: dict[int, list[Array]] = {}
    with torch.no_grad():
        for sample in samples:
            found = {"sigma": sample.sigma}
            found |= {f"{DELTA}{layer.removeprefix('network.')}": value for layer, value in sample.delta.items()}
            for name, value in found.items():
                latent.setdefault(name, {}).setdefault(sample.chain, []).append(value)
            outputs = maps.decode_velocity(functional_call(surrogate, sample.parameters, (inputs,)))
            velocities.setdefault(sample.chain, []).append(outputs[:, chosen].double().numpy())
    length = min(map(len, velocities.values()))
    everywhere = np.array([chain[-length:] for chain in velocities.values()])  # (chains, draws, fields, edges)
    traces = {name: np.array([chain[-length:] for chain in rows.values()]) for name, rows in latent.items()}
    for field in range(everywhere.shape[2]):
        edge = int(everywhere[:, :, field].reshape(-1, len(chosen)).std(axis=0).argmax())
        traces[f"velocity in test field {field}"] = everywhere[:, :, field, edge]
    return Agreement(traces, rhat(everywhere), verdict(traces))
