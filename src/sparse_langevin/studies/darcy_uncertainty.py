r"""Whether the error bars of the surrogate can be believed, beside the usual alternatives with as much training.

Every contender forecasts velocities by the mean and the standard deviation over several networks, and by the standard
deviation of the noise that no network explains. A tenth of the training data is set apart; from it alone come

    the noise of ensembles and dropout   sqrt(max(0, mean (y - mean)^2 - mean std^2)); the samplers learn theirs
    the factors of the recalibration     see `surrogates.calibration`

The study's folder holds

table.json     one record per contender
figures/       reliability, errors against deviations, deviations far from the training data
report.html    all of it on a page
work/          the training runs, a study of its own (`darcy_study`), from which the same command goes on
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version

import numpy as np
import torch
from scipy.stats import mannwhitneyu
from torch import Tensor, nn

from sparse_langevin.posterior import Prediction
from sparse_langevin.posterior.calibration import Calibration
from sparse_langevin.problems.darcy.channels import Channels
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.errors import e1
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.network import EncoderDecoder
from sparse_langevin.problems.darcy.solver import Solver
from sparse_langevin.studies.darcy_cells import FIELDS, Cell, Record, Scale, shortened
from sparse_langevin.studies.darcy_study import StudyFolder
from sparse_langevin.surrogates.calibration import Trust, deviation, find_factors, set_apart, trust_of
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.runs import SurrogateRun
from sparse_langevin.surrogates.settings import Settings

FIELD = next(f for f in FIELDS["kle"] if f.name == "kle32")
FAR = (1.0, 10.0)  # permeabilities of the channels, which no contender has seen
FAR_FIELDS = 200  # the number of test fields
VALIDATION = 0.1
MEMBERS = 5
PASSES = 20  # the number of posterior samples


class DropoutNetwork(EncoderDecoder):
    """The network with dropout after the activations of its dense layers."""

    SHARE = 0.02

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid)
        for part in (self.encode, self.decode):
            part[7] = nn.Sequential(part[7], nn.Dropout(self.SHARE))


class LightDropoutNetwork(DropoutNetwork):
    """The same with less dropout: errors nearer to those without dropout, and narrower error bars."""

    SHARE = 0.005


@dataclass(frozen=True)
class Contender:
    """A way to get error bars: what is trained, and how it forecasts."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    forecast: Callable[[Sequence[SurrogateRun], Array], Prediction]
    """Forecast for permeability of shape (fields, ny, nx); without ``noise_std`` if that is still to be fitted."""


@dataclass(frozen=True)
class Judgement:
    """The results of a contender: its record for the table, and what the figures need."""

    record: Record
    trust: Trust
    far: Array
    """Deviations of the forecasts for fields of another kind, one number per field."""


def contenders(scale: Scale, *, full_ensemble: bool = False) -> list[Contender]:
    """All contenders at a scale, ours first. The full ensemble has several times the budget of the others."""
    ours, adam, dropout, light = (
        shortened(settings) if scale == "small" else settings
        for settings in (
            Settings.of("psgld-sa", sparsity=0.7, validation=VALIDATION),
            Settings.of("adam", validation=VALIDATION),
            Settings.of("adam", validation=VALIDATION, network=f"{__name__}:DropoutNetwork"),
            Settings.of("adam", validation=VALIDATION, network=f"{__name__}:LightDropoutNetwork"),
        )
    )
    part = replace(adam, epochs=adam.epochs // MEMBERS)
    found = [
        Contender("psgld-sa", "PSGLD-SA 70 %", (_cell(ours, "psgld-sa", keep=True),), posterior_forecast),
        Contender("single", "Adam, one network", (_cell(adam, "single"),), single_forecast),
        Contender("ensemble", f"Adam, {MEMBERS} short runs", _members(part, "ensemble"), ensemble_forecast),
        Contender("dropout", "Adam, dropout 2 %", (_cell(dropout, "dropout"),), dropout_forecast),
        Contender("light-dropout", "Adam, dropout 0.5 %", (_cell(light, "light-dropout"),), dropout_forecast),
    ]
    if full_ensemble:
        title = f"Adam, {MEMBERS} full runs"
        found.append(Contender("full-ensemble", title, _members(adam, "full-ensemble"), ensemble_forecast))
    return found


def posterior_forecast(runs: Sequence[SurrogateRun], kappa: Array) -> Prediction:
    """Forecast by the posterior samples of the only run."""
    return predict(runs[0], kappa)


def single_forecast(runs: Sequence[SurrogateRun], kappa: Array) -> Prediction:
    """Forecast by one network; the error bar is the same for all velocities."""
    velocity = predict(runs[0], kappa, last=True).mean
    return Prediction(velocity, torch.zeros_like(velocity), samples=1)


def ensemble_forecast(runs: Sequence[SurrogateRun], kappa: Array) -> Prediction:
    """Forecast by the finished networks of all runs."""
    return _summed_up([predict(run, kappa, last=True).mean for run in runs])


def dropout_forecast(runs: Sequence[SurrogateRun], kappa: Array) -> Prediction:
    """Forecast by one network with dropout left on; the same call drops the same units again."""
    surrogate = runs[0].surrogate()
    for module in surrogate.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _summed_up([surrogate.predict(kappa) for _ in range(PASSES)])


def fitted_noise(true: Array, forecast: Prediction) -> float:
    """Standard deviation of the part of the errors that the spread of the networks does not explain."""
    assert forecast.std is not None
    mean, std = forecast.mean.double().numpy(), forecast.std.double().numpy()
    return float(np.sqrt(max(0.0, np.mean((true - mean) ** 2) - np.mean(std**2))))


def auroc(far: Array, near: Array) -> float:
    """Probability that a far field has a larger deviation than a near one; 1/2 if the deviation says nothing."""
    return float(mannwhitneyu(far, near).statistic) / (len(far) * len(near))


def examine(contender: Contender, place: StudyFolder) -> Judgement:
    """Judge a trained contender on the test fields and on fields of another kind."""
    data = DarcyData(place.data(FIELD))
    # `at` compares settings and data, so that runs of another scale in the same folder are refused.
    runs = [SurrogateRun.at(place.run(cell), cell.settings, data) for cell in contender.cells]
    for run in runs:
        if not run.finished:
            raise ValueError(f"{contender.title} cannot be judged: the run in {run.path} has diverged")
    held_kappa, held_velocity = set_apart(contender.cells[0].settings, data)
    held = contender.forecast(runs, held_kappa)
    noise = fitted_noise(held_velocity, held) if held.noise_std is None else float(held.noise_std)
    kappa, true = data.inputs("test"), data.outputs("test")
    forecast = replace(contender.forecast(runs, kappa), noise_std=noise)
    factors = find_factors(held_velocity, replace(held, noise_std=noise))
    known = trust_of(true, forecast, factors)
    assert known.recalibrated is not None
    far_kappa, far_true = far_fields(data.grid)
    elsewhere = replace(contender.forecast(runs, far_kappa), noise_std=noise)
    far, near = deviation(elsewhere), known.predicted
    there = trust_of(far_true, elsewhere, factors).recalibrated
    assert there is not None
    whole = [deviation(replace(f, std=factors.apply(f).total_std)) for f in (elsewhere, forecast)]
    last = predict(runs[0], kappa, last=True).mean if contender.forecast is posterior_forecast else None
    record = {
        "contender": contender.name,
        "title": contender.title,
        "field": FIELD.describe(),
        "scale": place.scale,
        "tests": len(true),
        "members": len(runs),
        "networks": forecast.samples,
        **{name: sum(run.result[name] for run in runs) for name in ("epochs", "seconds", "cpu_seconds")},
        **{name: runs[0].result[name] for name in ("parameters", "zeros")},
        "e1": _percent(data.grid, forecast.mean, true),
        "e1_last": None if last is None else _percent(data.grid, last, true),
        "noise_std": noise,
        "factors": {"weights": factors.weights, "noise": factors.noise},
        "plain": _scores(known.plain),
        "recalibrated": _scores(known.recalibrated),
        "rank_correlation": known.rank_correlation,
        "far_ratio": _ratio(far, near),
        "far_ratio_total": _ratio(*whole),
        "far_auroc": auroc(far, near),
        "far_e1": _percent(data.grid, elsewhere.mean, far_true),
        "far_recalibrated": _scores(there),
        "settings": [run.settings.as_json() for run in runs],
        "version": version("sparse-langevin"),
        "versions": runs[0].versions,
    }
    return Judgement(record, known, far)


def far_fields(grid: Grid) -> tuple[Array, Array]:
    """Permeability and velocity of channelised fields, which no contender has seen."""
    channels, rng, solver = Channels(grid, permeability=FAR), np.random.default_rng(0), Solver(grid)
    kappa = [channels.sample(rng)[0] for _ in range(FAR_FIELDS)]
    return np.stack(kappa), np.stack([solver.solve(field).velocity for field in kappa])


def _ratio(far: Array, near: Array) -> float:
    """Ratio of the medians; 1 if all deviations are zero."""
    return float(np.median(far) / np.median(near)) if near.any() else 1.0


def _cell(settings: Settings, label: str, *, keep: bool = False) -> Cell:
    return Cell("uncertainty", FIELD, settings, label, keep)


def _members(settings: Settings, label: str) -> tuple[Cell, ...]:
    return tuple(_cell(replace(settings, seed=seed), f"{label}-seed{seed}") for seed in range(MEMBERS))


def _summed_up(answers: Sequence[Tensor]) -> Prediction:
    """Mean and standard deviation over networks of equal weight."""
    everything = torch.stack(list(answers))
    return Prediction(everything.mean(0), everything.std(0, correction=0), samples=len(everything))


def _percent(grid: Grid, predicted: Tensor, true: Array) -> float:
    return 100 * float(np.mean(e1(grid, predicted.double().numpy(), true)))


def _scores(found: Calibration) -> Record:
    coverage, width = ({f"{p:g}": x for p, x in shares.items()} for shares in (found.coverage, found.sharpness))
    return {"coverage": coverage, "width": width, "crps": found.crps, "nll": found.nll}
