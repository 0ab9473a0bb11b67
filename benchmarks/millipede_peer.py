"""millipede-regression (Jankowiak): weighted tempered Gibbs sampling of linear models in PyTorch, with its defaults.

Its prior is another one than ours: the number of effects is binomial with mean S = 5, sigma^2 has the improper prior
1/sigma^2, and effects have the variance 100 sigma^2 (tau = 0.01), none of which is learned. Its posterior thus has
other uncertain predictors, and each contender is judged on its own ones.

With X'X + tau I = LL' release 0.1.7 adds sigma L^-1 N(0, I) to the mean of coefficients, whose covariance is not that
of the posterior, which takes the transpose of L^-1. Where predictors are strongly correlated, as in spectra, its
predictions vary more than ten times as much as ours, independently from step to step, and nearly all draws of them
count as effective. Inclusion probabilities are not touched.
"""

import time
import warnings

import numpy as np

SUBSET = 1000  # predictors beyond which a subset of a tenth is in view at a time, as its documentation advises


def run(x, y, rows, lengths: tuple[int, int], batches: int, seed: int):
    """Run one chain; return seconds of sampling, and per batch weights, inclusion, predictions and their squares.

    ``lengths`` are the steps of burn-in and those after it. Averages over a batch are weighted as millipede weights
    its samples.
    """
    import pandas
    import torch
    from millipede import NormalLikelihoodVariableSelector

    p = x.shape[1]
    frame = pandas.DataFrame(x, columns=[f"x{j}" for j in range(p)]).assign(y=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that pandas lends its memory to torch
        selector = NormalLikelihoodVariableSelector(frame, "y", subset_size=p // 10 if p > SUBSET else None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    chain = selector.sampler.mcmc_chain(T_burnin=lengths[0], T=lengths[1], seed=seed)
    for _ in range(lengths[0]):
        next(chain)
    weight, inclusion = np.zeros(batches), np.zeros((batches, p))
    mean, square = np.zeros((batches, len(rows))), np.zeros((batches, len(rows)))
    design = np.column_stack([x[rows], np.ones(len(rows))])
    begin = time.process_time()
    for step, (_, sample) in enumerate(chain):
        batch = step * batches // lengths[1]
        share, fitted = float(sample.weight), design @ sample.beta.numpy()
        weight[batch] += share
        inclusion[batch] += share * sample.pip.numpy()
        mean[batch] += share * fitted
        square[batch] += share * fitted**2
    seconds = time.process_time() - begin
    torch.set_num_threads(threads)
    return seconds, weight, inclusion / weight[:, None], mean / weight[:, None], square / weight[:, None]
