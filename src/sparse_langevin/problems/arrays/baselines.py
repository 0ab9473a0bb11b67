r"""Rivals that need no network and know only the training part.

The main one is ridge regression on principal components of inputs and outputs, as the codec encodes them and centred:
X = U S V' and Y = Q W', with the scores Q of the outputs. With the first k components of the inputs and penalty lambda,

    Q ~ H Q,   H = 1 1'/n + U_k diag(s_j^2 / (s_j^2 + lambda)) U_k',

and the error at example i of a fit without it is exactly (Q - H Q)_i / (1 - H_ii). k and lambda are those for which the
sum of squares of these errors over the training part is smallest. A component of the outputs whose own sum is not
smaller than that of the mean alone is left at its mean. ``quadratic`` adds the squares and products of the first
components of the inputs to X: a second-order response surface, the usual choice if there are few parameters.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from sklearn.utils.extmath import randomized_svd

from sparse_langevin.surrogates.problem import Array, Baseline, DataSet, Split

if TYPE_CHECKING:
    from sparse_langevin.problems.arrays.problem import ArraysProblem

PENALTIES = 10.0 ** np.array([-10, -8, -6, -5, -4, -3, -2, -1, 0])  # relative to the largest squared singular value
EXACT = 2000  # a matrix with more rows and more columns is decomposed approximately
COMPONENTS = 256  # most principal components that are tried
CROSSED = 20  # components of the inputs whose products are taken


def rivals(problem: "ArraysProblem", data: DataSet, split: Split) -> list[Baseline]:
    """The rivals with their mean errors on one part of a data set."""
    x, y, new, true = data.inputs("train"), data.outputs("train"), data.inputs(split), data.outputs(split)
    if not len(true):
        raise ValueError(f"{data.folder} has no samples in its {split} part: import it with another test_share")
    codec = problem.codec()
    codec.fit(torch.from_numpy(x), torch.from_numpy(y))
    seen, asked = (codec.encode(torch.from_numpy(part)).flatten(1).numpy() for part in (x, new))
    wanted = codec.encode_outputs(torch.from_numpy(y), torch.from_numpy(x)).numpy()
    known = codec.offset(torch.from_numpy(new))
    rivals = [("training mean", "the mean of the training outputs, whatever the input", y.mean(0)[None] + 0 * true)]
    if known is not None:
        rivals.append(("low fidelity", "the cheaper simulator's own answer", known.numpy()))
    for name, quadratic in (("ridge regression", False), ("quadratic regression", True)):
        fitted = Ridge.fit(seen, wanted, quadratic=quadratic)
        answer = codec.decode(torch.from_numpy(fitted.predict(asked))).numpy()
        of = "the inputs, their squares and their products" if quadratic else "the inputs"
        text = (
            f"ridge regression of {len(fitted.outputs)} principal components of the outputs on {fitted.used} of {of}; "
            "numbers and penalty chosen by leaving out one training example at a time"
        )
        rivals.append((name, text, answer if known is None else answer + known.numpy()))
    judged = []
    for name, text, answer in rivals:
        shares = list(problem.r2(answer, true).values())
        if shares and len(true) > 1:
            text += f"; R2 {np.mean(shares):.3f}" + f" on average, {min(shares):.3f} at worst" * (len(shares) > 1)
        errors = {measure: float(np.mean(each)) for measure, each in problem.errors(answer, true, new).items()}
        judged.append(Baseline(name, text, errors))
    return judged


class Ridge(NamedTuple):
    """A fitted regression on principal components."""

    centre: Array
    crossing: Array
    """Directions (inputs, crossed) whose scores are multiplied with each other; none for a linear regression."""
    features: Array
    """Means of the features, which are the inputs and the products."""
    slope: Array
    """Slopes, (features, output components)."""
    outputs: Array
    """Principal directions of the outputs, (output components, outputs)."""
    mean: Array
    used: int
    """Number of principal components of the features that are used."""
    penalty: float

    @classmethod
    def fit(cls, x: Array, y: Array, *, quadratic: bool = False) -> "Ridge":
        """Fit to examples (n, inputs) and (n, outputs), and choose the number of components and the penalty."""
        centre, mean, crossing = x.mean(0), y.mean(0), np.zeros((x.shape[1], 0))
        if quadratic:
            _, sizes, directions = _svd(x - centre)
            crossing = directions[:CROSSED].T * (np.sqrt(len(x)) / sizes[:1])  # makes scores of order one
        rows = _features(x - centre, crossing)
        u, s, v = _svd(rows - (features := rows.mean(0)))
        scores, sizes, directions = _svd(y - mean)
        scores = scores * sizes
        if not len(s) or not len(sizes):  # nothing varies: predict the mean
            nothing = np.zeros((rows.shape[1], 0)), directions[:0]
            return cls(centre, crossing, features, *nothing, mean, 0, 0.0)
        used, penalty = _choose(u, s, scores)
        u, s, v = u[:, :used], s[:used], v[:used]
        n = len(x)
        kept = _left_out(u, s, scores, penalty) < np.square(scores).sum(0) * (n / (n - 1)) ** 2
        slope = v.T @ ((s / (s**2 + penalty))[:, None] * (u.T @ scores[:, kept]))
        return cls(centre, crossing, features, slope, directions[kept], mean, used, penalty)

    def predict(self, x: Array) -> Array:
        """Outputs for new inputs (n, inputs)."""
        rows = _features(x - self.centre, self.crossing) - self.features
        answer: Array = self.mean + (rows @ self.slope) @ self.outputs
        return answer


def _features(centred: Array, crossing: Array) -> Array:
    """The inputs, followed by products of their scores in some directions."""
    scores = centred @ crossing
    first, second = np.triu_indices(scores.shape[1])
    return np.concatenate([centred, scores[:, first] * scores[:, second]], axis=1)


def _svd(centred: Array) -> tuple[Array, Array, Array]:
    """U, s and V' of the largest singular values, without those that are rounding errors."""
    if min(centred.shape) > EXACT:
        u, s, v = randomized_svd(centred, COMPONENTS, random_state=0)
    else:
        u, s, v = np.linalg.svd(centred, full_matrices=False)
    rank = min(COMPONENTS, int((s > 1e-10 * s[:1]).sum()), max(1, len(centred) - 2))
    return u[:, :rank], s[:rank], v[:rank]


def _choose(u: Array, s: Array, scores: Array) -> tuple[int, float]:
    """Number of components and penalty with the smallest error on examples left out of the fit."""
    numbers = sorted({*(2**i for i in range(len(s).bit_length())), len(s)})
    tried = [
        (float(_left_out(u[:, :k], s[:k], scores, penalty).sum()), k, penalty)
        for k in numbers
        for penalty in PENALTIES * s[0] ** 2
    ]
    _, used, penalty = min(tried)
    return used, float(penalty)


def _left_out(u: Array, s: Array, scores: Array, penalty: float) -> Array:
    """Sum of squared errors, for each component of the outputs, of examples left out of the fit one by one."""
    shrunk = u * (s**2 / (s**2 + penalty))
    leverage = 1 / len(u) + (shrunk * u).sum(1)
    apart = (scores - shrunk @ (u.T @ scores)) / np.maximum(1 - leverage, 1e-9)[:, None]
    error: Array = np.square(apart).sum(0)
    return error
