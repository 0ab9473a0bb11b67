"""Do two fits with different seeds say the same? Default fits of twenty simulated data sets that are hard to settle.

``python -m benchmarks.agreement [--replicates 20]`` fits spectra, genetic markers, gene expression and predictors with
copies, p = 400 to 6000, with two seeds each; it goes on where it stopped (results/agreement.jsonl), and prints for each
data set the largest difference of an inclusion probability, whether the fits warned, and their seconds on one core.
"""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import resumable
from benchmarks.simulations import HARD, hard
from sparse_langevin import SparseBayesRegressor

SEEDS = (0, 1)
STORED = 1e-3  # smaller probabilities are not kept
ASKED = 0.1  # largest difference without a warning


def fit(index: int, seed: int) -> dict[str, Any]:
    """One fit: probabilities that are not almost zero, warnings about convergence, seconds."""
    x, y = hard(index)
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SparseBayesRegressor(random_state=seed).fit(x, y)
    seconds = time.perf_counter() - begin
    kept = np.flatnonzero(model.inclusion_probability_ > STORED)
    return {
        "predictors": kept.tolist(),
        "inclusion": np.round(model.inclusion_probability_[kept], 4).tolist(),
        "warned": [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)],
        "steps": model.n_steps_,
        "seconds": round(seconds, 2),
    }


def table(records: list[dict[str, Any]]) -> list[str]:
    """Return the lines about all data sets of which both fits are there."""
    lines = ["| data | largest difference | warned | steps | seconds |", "|---|---|---|---|---|"]
    fine = warned = 0
    fits = {(record["index"], record["seed"]): record for record in records}
    found = [[fits.get((index, seed)) for seed in SEEDS] for index in range(len(HARD))]
    pairs = [(one, other) for one, other in found if one and other]
    for pair in pairs:
        spec = HARD[pair[0]["index"]]
        difference = apart(*pair)
        silent = not any(record["warned"] for record in pair)
        fine += difference <= ASKED or not silent
        warned += sum(bool(record["warned"]) for record in pair)
        steps, seconds = (
            ", ".join(f"{record[name]:,.{digits}f}" for record in pair)
            for name, digits in (("steps", 0), ("seconds", 1))
        )
        copies = f", {spec.copies} {'exact' if spec.exact else 'near'} copies" if spec.copies else ""
        about = ", ".join("yes" if record["warned"] else "no" for record in pair)
        lines.append(
            f"| {spec.kind} {spec.n} x {spec.p:,}{copies} | {difference:.3f} | {about} | {steps} | {seconds} |"
        )
    lines += [
        "",
        f"{fine} of {len(pairs)} pairs agree within {ASKED:g} or warn; {warned} of {2 * len(pairs)} fits warned.",
    ]
    return lines


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the largest difference of the probabilities of two records."""
    left, right = (dict(zip(r["predictors"], r["inclusion"], strict=True)) for r in (one, other))
    return max((abs(left.get(j, 0.0) - right.get(j, 0.0)) for j in left.keys() | right.keys()), default=0.0)


def main() -> None:
    arguments = resumable.options(__doc__, "agreement", len(HARD)).parse_args()
    todo = [(index, seed) for index in range(min(arguments.replicates, len(HARD))) for seed in SEEDS]
    records = resumable.gather(fit, todo, ("index", "seed"), arguments.records, arguments.workers)
    print("\n".join(table(records)))


if __name__ == "__main__":
    main()
