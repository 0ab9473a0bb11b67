"""Whether the chains of a run agree: R-hat, effective sample sizes and figures of their predictions."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sparse_langevin.posterior import Sample
from sparse_langevin.posterior.diagnostics import Traces, ess, ess_tail, mcse, rhat, verdict
from sparse_langevin.posterior.effective import Array, weighted_deviation, weighted_mean
from sparse_langevin.posterior.figures import autocorrelation_figure, rank_figure, trace_figure
from sparse_langevin.reports.page import Picture, Table, number, png
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.problem import DataSet
from sparse_langevin.surrogates.runs import SurrogateRun
from sparse_langevin.surrogates.surrogate import outputs_of

EXAMPLES = 3  # test examples whose outputs are followed
OUTPUTS = 300  # outputs of each example, evenly spread
DELTA = "delta of "


@dataclass(frozen=True)
class Agreement:
    """Convergence of the chains of a run, judged by their samples."""

    traces: Traces
    """Draws of sigma, inclusion probabilities and the least certain output of some test examples, (chains, draws), and
    the weights of the samples."""
    rhat: Array
    """R-hat of many outputs of these examples, (examples, outputs)."""
    verdict: list[str]
    """The result in plain words."""

    def table(self) -> Table:
        """One row for each quantity."""
        weights = self.traces.weights
        rows = [
            (
                name,
                number(weighted_mean(draws, weights), 5),
                number(weighted_deviation(draws, weights), 5),
                number(float(rhat(draws)), 3),
                number(float(ess(draws, weights)), 0),
                number(float(ess_tail(draws, weights=weights)), 0),
                number(float(mcse(draws, weights)), 5),
            )
            for name, draws in self.traces.items()
        ]
        chains, draws = next(iter(self.traces.values())).shape
        middle, high = np.nanquantile(self.rhat, (0.5, 0.95)) if np.isfinite(self.rhat).any() else (np.nan, np.nan)
        caption = (
            f"{chains} chain{'s' if chains > 1 else ''} of {draws} draws. Outputs are the least certain of their "
            f"examples. R-hat of {self.rhat.size} outputs of {len(self.rhat)} test examples: median {middle:.3f}, 95 % "
            f"are below {high:.3f}."
        )
        columns = ("", "mean", "deviation", "R-hat", "bulk ESS", "tail ESS", "Monte Carlo error")
        return Table(columns, rows, caption)

    def pictures(self) -> list[Picture]:
        """Traces, ranks if there are several chains, and autocorrelations, of sigma and of the outputs."""
        shown = {name: draws for name, draws in self.traces.items() if not name.startswith(DELTA)}
        drawn = [(trace_figure, "Traces: each quantity from draw to draw.")]
        if len(next(iter(self.traces.values()))) > 1:
            drawn.append((rank_figure, "Ranks of each chain's draws among those of all chains."))
        drawn.append((autocorrelation_figure, "Autocorrelation: how long a chain remembers."))
        return [Picture(png(draw(shown)), text) for draw, text in drawn]


class Collector:
    """Collects the draws to compare while the samples of a run's chains are read one after the other."""

    def __init__(self, outputs: int) -> None:
        self._chosen = torch.linspace(0, outputs - 1, min(OUTPUTS, outputs)).round().long()
        self._latent: dict[str, dict[int, list[float]]] = {}
        self._outputs: dict[int, list[Array]] = {}
        self._weights: dict[int, list[float]] = {}

    def __call__(self, sample: Sample, output: Tensor) -> None:
        """Take in a sample and its outputs for the test examples."""
        found = {"sigma": sample.sigma}
        found |= {f"{DELTA}{layer.removeprefix('network.')}": value for layer, value in sample.delta.items()}
        for name, value in found.items():
            self._latent.setdefault(name, {}).setdefault(sample.chain, []).append(value)
        self._weights.setdefault(sample.chain, []).append(sample.weight)
        rows = output[:EXAMPLES].flatten(1)[:, self._chosen]
        self._outputs.setdefault(sample.chain, []).append(rows.double().numpy())

    def agreement(self) -> Agreement | None:
        """Compare the chains; None if one has fewer than 4 samples.

        Predictions are compared and not weights, because the units of a network can trade places.
        """
        length = min(map(len, self._outputs.values()), default=0)
        if length < 4:
            return None
        # (chains, draws, examples, outputs)
        everywhere = np.array([chain[-length:] for chain in self._outputs.values()])
        traces = Traces(
            {name: np.array([chain[-length:] for chain in rows.values()]) for name, rows in self._latent.items()},
            [chain[-length:] for chain in self._weights.values()],
        )
        for example in range(everywhere.shape[2]):
            spread = everywhere[:, :, example].reshape(-1, len(self._chosen)).std(axis=0)
            traces[f"output of test example {example}"] = everywhere[:, :, example, int(spread.argmax())]
        return Agreement(traces, rhat(everywhere), verdict(traces))


def agreement(run: SurrogateRun, data: DataSet) -> Agreement | None:
    """Compare the chains of a run; None if one has kept fewer than 4 samples."""
    collector = Collector(outputs_of(run.problem))
    if len(run.samples()):
        predict(run, data.inputs("test")[:EXAMPLES], observe=collector)
    return collector.agreement()
