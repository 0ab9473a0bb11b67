"""How near the estimator's posterior is to the exact one: means and deviations beside a Gibbs sampler's.

``python -m benchmarks.posterior [--replicates 25]`` fits the paper's two regression tests and prints, for beta_1 and
beta_2, the difference of posterior means in units of the posterior deviation, and the ratio of the deviations. The
estimator learns delta and sigma by stochastic approximation, the Gibbs sampler integrates over them; a data set is
clear if both true predictors have an exact inclusion probability above 0.95.
"""

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparse_langevin import SparseBayesRegressor
from sparse_langevin.studies.regression_data import make
from tests.linear.gibbs_reference import Model, gibbs


def compare(test: int, replicate: int) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether the data set is clear, and the two measures for beta_1 and beta_2."""
    study = make(test, replicate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = SparseBayesRegressor(random_state=replicate, target_ess=2000, max_steps=40_000).fit(study.x, study.y)
    n, p = study.x.shape
    scale = study.y.std() / study.x.std(0)
    prior = Model(v0=0.1 / np.sqrt(n), slab=0.075, a=10.0, b=p - 10.0, lambda_=0.25)
    z, t = (study.x - study.x.mean(0)) / study.x.std(0), (study.y - study.y.mean()) / study.y.std()
    exact = gibbs(z, t, prior, 22_000, np.random.default_rng([9, test, replicate]), burn_in=2000)
    mean, deviation = exact.beta[:, :2].mean(0) * scale[:2], exact.beta[:, :2].std(0) * scale[:2]
    clear = bool((exact.inclusion[:, :2].mean(0) > 0.95).all())
    return clear, (ours.coef_[:2] - mean) / deviation, ours.coef_std_[:2] / deviation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=25)
    arguments = parser.parse_args()
    for test in (1, 2):
        rows = [compare(test, replicate) for replicate in range(arguments.replicates)]
        clear = np.array([row[0] for row in rows])
        shift, ratio = np.abs([row[1] for row in rows]), np.array([row[2] for row in rows])
        for label, chosen in (("all", np.ones(len(rows), dtype=bool)), ("clear", clear)):
            if chosen.any():
                print(
                    f"test {test}, {label} ({chosen.sum()}): |mean - exact| / deviation: median "
                    f"{np.median(shift[chosen], axis=0).round(3)}, both below 0.1 in "
                    f"{np.mean((shift[chosen] < 0.1).all(1)):.0%}; ratio of deviations: median "
                    f"{np.median(ratio[chosen], axis=0).round(3)}, both within 15 % in "
                    f"{np.mean((np.abs(ratio[chosen] - 1) < 0.15).all(1)):.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
