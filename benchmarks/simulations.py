"""Data sets for the evidence about default fits: twenty that are hard to settle, and families to predict with."""

from typing import NamedTuple

import numpy as np

from sparse_langevin.linear.simulated import Simulated, autoregressive, expression, markers, spectra

TEST_ROWS = 1000  # observations that predictions are judged on


class Hard(NamedTuple):
    """How a data set is made: its kind, size, and copies of predictors, exact or with a correlation of 0.999."""

    kind: str
    n: int
    p: int
    copies: int = 0
    exact: bool = True


HARD = (  # the first five are of all kinds
    Hard("spectra", 60, 400),
    Hard("markers", 200, 400),
    Hard("expression", 60, 1000),
    Hard("autoregressive", 100, 400, 4),
    Hard("expression", 70, 2000, 100, False),
    Hard("spectra", 80, 700),
    Hard("markers", 300, 800),
    Hard("expression", 70, 3000),
    Hard("autoregressive", 100, 400, 40, False),
    Hard("expression", 70, 1000, 20),
    Hard("spectra", 100, 1000),
    Hard("markers", 600, 1200),
    Hard("expression", 70, 4000),
    Hard("markers", 300, 600, 60),
    Hard("spectra", 60, 401),
    Hard("markers", 300, 3000),
    Hard("expression", 100, 4000),
    Hard("spectra", 100, 2000),
    Hard("markers", 400, 6000),
    Hard("expression", 100, 6000),
)


def hard(index: int) -> tuple[np.ndarray, np.ndarray]:
    """Return predictors and response of one of the ``HARD`` data sets."""
    spec = HARD[index]
    p, seed = spec.p - spec.copies, [11, index]
    makers = {
        "spectra": lambda: spectra(spec.n, p, seed=seed),
        "markers": lambda: markers(spec.n, p, share=(0.01, 0.3)[index // 5 % 2], seed=seed),
        "expression": lambda: expression(spec.n, p, modules=max(10, p // 50), seed=seed),
        "autoregressive": lambda: autoregressive(spec.n, p, seed=seed),
    }
    data = makers[spec.kind]()
    rng = np.random.default_rng([12, index])
    return with_copies(data, spec.copies, spec.exact, rng), data.y


def with_copies(data: Simulated, copies: int, exact: bool, rng: np.random.Generator) -> np.ndarray:
    """Return the predictors and copies of some of them: first of those with an effect, the largest ones first."""
    assert data.beta is not None or not copies
    if not copies:
        return data.x
    assert data.beta is not None
    originals = data.x[:, np.argsort(-np.abs(data.beta), kind="stable")[:copies]]
    if not exact:
        near = originals.std(0) * rng.standard_normal(originals.shape)
        originals = originals + np.sqrt(1 / 0.999**2 - 1) * near
    return np.column_stack([data.x, originals])


class Family(NamedTuple):
    """How data to predict with are made: kind, training rows, predictors, and how many of them have an effect."""

    kind: str
    n: int
    p: int
    effects: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}, {self.n} x {self.p:,}" + (f", {self.effects:,} effects" if self.effects else "")


FAMILIES = (
    *(Family("autoregressive", 100, 200, k) for k in (1, 3, 10, 30, 100, 200)),
    *(Family("expression", 100, 1000, k) for k in (1, 5, 20, 200, 1000)),
    *(Family("markers", 400, 800, k) for k in (1, 8, 80, 800)),
    Family("spectra", 60, 400),
)


def family(index: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return predictors and responses of one of the ``FAMILIES``, ``TEST_ROWS`` more than are for training."""
    spec = FAMILIES[index]
    n, p, key = spec.n + TEST_ROWS, spec.p, [13, index, seed]
    k = spec.effects or 0
    if spec.kind == "autoregressive":
        data = autoregressive(n, p, effects=k, sizes="equal", size=2 / np.sqrt(k), seed=key)  # about 80 % of var y
    elif spec.kind == "expression":
        data = expression(n, p, modules=40, effects=k, seed=key)
    elif spec.kind == "markers":
        data = markers(n, p, share=k / p, seed=key)
    else:
        data = spectra(n, p, seed=key)
    return data.x, data.y
