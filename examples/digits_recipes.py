"""Recipes for three architectures with ninety per cent zeros: a CNN, a ResNet with BatchNorm and a small transformer.

Each is sampled by `psgld_sa` on scikit-learn's 8 by 8 digits, pruned to exactly 90 % zeros, and its posterior average
is compared with the same network trained by Adam for as many steps, dense and pruned. The recipes were chosen on the
validation part by a search that is recorded (`python -m benchmarks.recipes`, results/recipes.jsonl); the test part is
used once, for the numbers printed.

Run: python examples/digits_recipes.py [cnn] [resnet] [transformer] [--seeds 0 1 2] [--out FOLDER]
"""

import argparse
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from sparse_langevin import (
    Batches,
    CategoricalLikelihood,
    ChainWarning,
    Cosine,
    PosteriorBank,
    Pruning,
    Sampler,
    SpikeSlab,
    Switch,
    fit_chains,
    psgld_sa,
)
from sparse_langevin.posterior import classification
from sparse_langevin.posterior.class_report import classification_report
from sparse_langevin.posterior.probabilities import Classification
from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.pruning import Mask

Part = tuple[Tensor, Tensor]
TARGET, BATCH, SAMPLES = 0.9, 50, 20


@dataclass(frozen=True)
class Recipe:
    """How to sample and prune one architecture; times are shares of the run."""

    steps: int = 3000
    step_size: float = 5e-3
    final: float = 0.1  # of the step size
    momentum: float = 0.9
    tau: float = 10.0
    noise_from: float = 0.6
    pruned_by: float = 0.5
    v0: float = 0.1
    v1: float = 100.0
    chains: int = 1  # each of them steps/chains long


RECIPES = {
    "cnn": Recipe(tau=100.0, v0=0.03),
    "resnet": Recipe(tau=1000.0, v0=0.03, noise_from=0.8, final=0.02),
    "transformer": Recipe(tau=1000.0, v0=0.03, noise_from=0.8, final=0.02, chains=2),
}


@dataclass(frozen=True)
class AdamRecipe:
    """How to train one architecture by Adam along a cosine, and to prune it by magnitude if it is to have zeros."""

    steps: int = 3000
    step_size: float = 3e-3
    weight_decay: float = 1e-2
    pruned_by: float = 0.5


DENSE = dict.fromkeys(RECIPES, AdamRecipe(step_size=1e-2, weight_decay=0.1))
DENSE["transformer"] = AdamRecipe(weight_decay=0.3)
PRUNED = dict.fromkeys(RECIPES, AdamRecipe(step_size=1e-2, weight_decay=0.1))


class Residual(nn.Module):
    """Two convolutions with BatchNorm, added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the same shape."""
        inner = functional.relu(self.norm1(self.first(x)))
        return functional.relu(x + self.norm2(self.second(inner)))


class Transformer(nn.Module):
    """A pixel row is a token: embedding, two encoder layers, the mean over rows."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.place = nn.Parameter(0.02 * torch.randn(8, width))
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.layers = nn.Sequential(*(nn.TransformerEncoderLayer(width, 4, 2 * width, **options) for _ in range(2)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of images (n, 1, 8, 8)."""
        return self.head(self.layers(self.embed(x[:, 0]) + self.place).mean(1))


def network(name: str) -> nn.Module:
    """Return an untrained network, whose weights come from torch's generator."""
    if name == "transformer":
        return Transformer()
    if name == "resnet":
        stem = [nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        down = [nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
        return nn.Sequential(*stem, Residual(16), *down, Residual(32), *head)
    convolutions = [
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    ]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def load(seed: int) -> dict[str, Part]:
    """Return images in [0, 1] and labels, split into 1000 for training, 397 for validation and 400 for the test."""
    digits = load_digits()
    x, y = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32), torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    parts = dict(zip(("train", "validation", "test"), order.split([1000, 397, 400]), strict=True))
    return {name: (x[rows], y[rows]) for name, rows in parts.items()}


def plan(pruned_by: float, steps: int) -> Pruning:
    """Return the pruning plan that reaches its target at a share of the run."""
    return Pruning(target=TARGET, start=steps // 20, end=round(pruned_by * steps), scope="global")


def sampler(name: str, recipe: Recipe, count: int, seed: int, chain: int) -> Sampler:
    """Return the chain of a recipe at its start."""
    steps, size = recipe.steps // recipe.chains, recipe.step_size
    return psgld_sa(
        network(name),
        CategoricalLikelihood(),
        num_data=count,
        step_size=Cosine(size, steps, final=recipe.final * size),
        momentum=recipe.momentum,
        prior=SpikeSlab.for_network(v0=recipe.v0, v1=recipe.v1),
        tau=Switch(math.inf, recipe.tau, at=round(recipe.noise_from * steps)),
        pruning=plan(recipe.pruned_by, steps),
        seed=seed,
        chain=chain,
    )


def sampled(name: str, recipe: Recipe, train: Part, inputs: Sequence[Tensor], seed: int) -> list[Classification]:
    """Return the class probabilities of several inputs, averaged over the posterior samples of all chains."""
    steps = recipe.steps // recipe.chains
    burn_in = round(recipe.noise_from * steps)
    with warnings.catch_warnings():
        # With so large a tau, nearly all of the spread comes from the minibatches; that is meant.
        warnings.filterwarnings("ignore", "the chain is too warm", ChainWarning)
        chains = fit_chains(
            lambda chain: sampler(name, recipe, len(train[0]), seed, chain),
            Batches(*train, batch_size=BATCH, seed=seed),
            steps=steps,
            chains=recipe.chains,
            bank=PosteriorBank(thin=max(1, recipe.chains * (steps - burn_in) // SAMPLES), burn_in=burn_in),
            workers=0 if recipe.chains == 1 else None,
        )
    model = network(name)
    return [chains.bank.classify(model, x, statistics=train[0]) for x in inputs]


def trained(
    name: str, recipe: AdamRecipe, train: Part, inputs: Sequence[Tensor], seed: int, zeros: bool
) -> list[Tensor]:
    """Return the class probabilities of the same network trained by Adam."""
    torch.manual_seed(seed)
    model = network(name)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.step_size, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.steps)
    mask = Mask(FlatParameters(model), plan(recipe.pruned_by, recipe.steps)) if zeros else None
    loader, step = Batches(*train, batch_size=BATCH, seed=seed), 0
    while step < recipe.steps:
        for x, y in loader:
            optimiser.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimiser.step()
            schedule.step()
            step += 1
            if mask is not None:
                mask.prune(step) if mask.plan.due(step) else mask.apply()
    with torch.no_grad():
        return [model.eval()(x).softmax(1) for x in inputs]


def main(names: Sequence[str] = tuple(RECIPES), seeds: Sequence[int] = (0,), out: Path = Path("out")) -> dict:
    """Train and sample, print the scores averaged over seeds, and write a report about the last seed's samples."""
    torch.set_num_threads(1)  # the models are small: threads would only wait for each other
    table = {}
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        found: dict[str, list[classification.Scores]] = {}
        for seed in seeds:
            data = load(seed)
            (x, y), train = data["test"], data["train"]
            dense, pruned = (trained(name, r[name], train, [x], seed, r is PRUNED)[0] for r in (DENSE, PRUNED))
            made, turned = sampled(name, RECIPES[name], train, [x, x.rot90(1, (2, 3))], seed)
            ways = {"Adam, dense": dense, "Adam, pruned": pruned, "psgld_sa, pruned": made.probabilities}
            for title, probabilities in ways.items():
                found.setdefault(title, []).append(classification.assess(probabilities, y))
        report = out / f"report-{name}.html"
        classification_report(report, made, y, outside={"turned by 90 degrees": turned}, title=f"Digits, {name}")
        size = sum(p.numel() for p in network(name).parameters())
        print(f"{name}: {size} parameters, {TARGET:.0%} zeros if pruned; mean over {len(seeds)} seeds, 400 digits each")
        for title, scores in found.items():
            means = {n: sum(getattr(s, n) for s in scores) / len(scores) for n in ("accuracy", "nll", "ece")}
            table[name, title] = means
            print(f"  {title:17} accuracy {means['accuracy']:.1%}  NLL {means['nll']:.3f}  ECE {means['ece']:.3f}")
        print(f"  report: {report}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*RECIPES, []], default=[], help="default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    main(options.names or list(RECIPES), options.seeds, options.out)
