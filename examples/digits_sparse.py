"""Handwritten digits with a network that is ninety per cent zeros.

`psgld_sa` samples the weights of a small network on scikit-learn's 8 by 8 digits and prunes its layers to exactly 90 %
zeros; the posterior average over the pruned samples is compared with the last sample, and with the same network trained
densely by Adam. Settings were chosen on the validation part; the test part is used once, for the numbers printed.

Run: python examples/digits_sparse.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

from sparse_langevin import Batches, CategoricalLikelihood, Cosine, PosteriorBank, Pruning, SpikeSlab, fit, psgld_sa

TARGET, STEPS, PRUNED = 0.9, 4000, 2400


def load(seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return pixels in [0, 1] and labels, split into 1000 for training, 397 for validation and 400 for the test."""
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    parts = dict(zip(("train", "validation", "test"), order.split([1000, 397, 400]), strict=True))
    return {name: (x[rows], y[rows]) for name, rows in parts.items()}


def network(seed: int) -> nn.Module:
    """Return an untrained network."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of examples whose highest score is at their label."""
    return float((scores.argmax(1) == labels).float().mean())


def train_dense(data: dict[str, tuple[Tensor, Tensor]], seed: int) -> nn.Module:
    """Train the same network by Adam, for as many steps, with weight decay."""
    model = network(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    batches = Batches(*data["train"], batch_size=100, seed=seed)
    for _ in range(STEPS // len(batches)):
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


def main(out: Path = Path("out"), seed: int = 0) -> dict[str, float]:
    """Sample and prune, print the comparison, draw the picture and return the key numbers."""
    torch.set_num_threads(1)  # the model is small: threads would only wait for each other
    data = load(seed)
    model = network(seed)
    sampler = psgld_sa(
        model,
        CategoricalLikelihood(),
        num_data=len(data["train"][0]),
        step_size=Cosine(3e-3, STEPS, final=3e-4),
        tau=10.0,  # a cold posterior: with 17 times more weights than digits, tau = 1 is less accurate
        prior=SpikeSlab.for_network(v0=0.1, v1=10.0),  # a firm slab: the weights settle, and the chain stays cold
        pruning=Pruning(target=TARGET, start=400, end=PRUNED),
        seed=seed,
    )
    bank = PosteriorBank(thin=20, burn_in=PRUNED)
    x_val, y_val = data["validation"]
    history = fit(
        sampler,
        Batches(*data["train"], batch_size=100, seed=seed),
        steps=STEPS,
        evaluate=lambda model: {"validation": accuracy(model(x_val), y_val)},
        evaluate_every=50,
        bank=bank,
    )
    x, y = data["test"]
    last, dense = accuracy(model(x), y), accuracy(train_dense(data, seed)(x), y)
    average = accuracy(bank.classify(model, x).probabilities, y)
    zeros = {n: (int((p == 0).sum()), p.numel()) for n, p in model.named_parameters() if n.endswith("weight")}

    print(f"accuracy on {len(x)} test digits, which were not used for any choice")
    print(f"  dense network, Adam:                         {dense:.1%}")
    print(f"  {TARGET:.0%} zeros, last sample:                      {last:.1%}")
    print(f"  {TARGET:.0%} zeros, average of {len(bank)} posterior samples:  {average:.1%}")
    for name, (count, size) in zeros.items():
        print(f"  {name}: {count} of {size} weights are zero")
    draw(out / "digits_sparse.png", history, sampler.inclusion(), zeros)
    totals = [sum(pair) for pair in zip(*zeros.values(), strict=True)]
    return {"dense": dense, "last": last, "average": average, "zeros": totals[0], "weights": totals[1]}


def draw(path: Path, history, inclusion, zeros) -> None:
    """Draw the learning curve beside the growing sparsity, and the inclusion probabilities of the kept weights."""
    figure = Figure(figsize=(10, 4), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [record["step"] for record in history]
    left.plot(steps, [record["validation"] for record in history], color="teal", label="validation accuracy")
    left.plot(
        steps, [record["sparsity"] for record in history], color="crimson", linestyle="--", label="share of zeros"
    )
    left.set(xlabel="step", ylabel="share", ylim=(0, 1.02), title="Accuracy holds while nine weights in ten go")
    left.legend(frameon=False, loc="center right")
    kept = [rho.flatten().topk(zeros[name][1] - zeros[name][0]).values.numpy() for name, rho in inclusion.items()]
    right.hist(kept, bins=10, range=(0, 1), label=list(inclusion))
    right.set(xlabel="inclusion probability", ylabel="weights", yscale="log", title="The most included tenth, by layer")
    right.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"))
    folder = parser.parse_args().out
    main(folder)
    print(f"picture: {folder / 'digits_sparse.png'}")
