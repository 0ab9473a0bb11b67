"""Evidence for docs/paper-notes.md on the paper's Darcy flow problem; run through paper_notes.py."""

import itertools

import numpy as np

Numbers = dict[str, float]
LX, LY, VARIANCE = 0.2, 0.3, 2.0


def covariance_sign() -> Numbers:
    """The covariance kernel grows with the distance in x; both exponents must be negative."""
    values: Numbers = {}
    print("covariance of the field on 25x25 cells, variance 2")
    for name, sign in (("printed, exp(+dx^2/lx^2 - dy^2/ly^2)", 1), ("holds,   exp(-dx^2/lx^2 - dy^2/ly^2)", -1)):
        matrix = covariance(sign)
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        correlation = float(matrix.max()) / VARIANCE
        values |= {f"smallest_{sign}": smallest, f"correlation_{sign}": correlation}
        print(f"{name}: smallest eigenvalue {smallest:.1e}, largest correlation {correlation:.1e}")
    return values


def positive_fields() -> Numbers:
    """A Gaussian permeability field can be negative; such a field has to be redrawn."""
    roots, vectors = np.linalg.eigh(covariance(-1))
    roots, vectors = roots[::-1], vectors[:, ::-1]
    shares = {terms: float(roots[:terms].sum() / roots.sum()) for terms in (32, 64)}
    draws = np.random.default_rng(0).normal(size=(20_000, 32))
    lowest = (draws * np.sqrt(roots[:32]) @ vectors[:, :32].T).min(1)
    negative = {mean: float((mean + lowest <= 0).mean()) for mean in (2, 4, 6)}
    print("20,000 fields kappa_0 + KLE with 32 terms on 25x25 cells, variance 2; the paper does not give kappa_0")
    print("share with kappa <= 0 somewhere: " + ", ".join(f"{v:.2%} at kappa_0 = {m}" for m, v in negative.items()))
    print(f"at kappa_0 = 6 that is {1500 * negative[6]:.1f} of 1500 fields; exp(KLE) is positive always")
    print(f"share of the variance in 32 terms {shares[32]:.1%}, in 64 terms {shares[64]:.2%}")
    return {f"negative_{m}": v for m, v in negative.items()} | {f"variance_{t}": v for t, v in shares.items()}


def boundary_sign() -> Numbers:
    """The boundary term of the mixed formulation has the wrong sign."""
    cells = 50
    h = 1 / cells
    mass = (np.eye(cells + 1) * 4 + np.eye(cells + 1, k=1) + np.eye(cells + 1, k=-1)) * h / 6
    mass[0, 0] = mass[-1, -1] = h / 3
    b = np.eye(cells, cells + 1) - np.eye(cells, cells + 1, k=1)  # b(v, q) = -int q v'
    system = np.block([[mass, b.T], [b, np.zeros((cells, cells))]])
    values: Numbers = {}
    print("one dimension, kappa = f = 1, p(0) = 1, p(1) = 0, 50 cells; exact: u(0) = 0.5, u(1) = 1.5, p(1/2) = 0.625")
    for name, sign in (("printed, + int p_D v.n", 1), ("holds,   - int p_D v.n", -1)):
        boundary = np.zeros(cells + 1)
        boundary[0] = sign * 1.0 * -1.0  # p_D = 1 where the outward normal is -1
        solution = np.linalg.solve(system, np.concatenate([boundary, np.full(cells, -h)]))
        u, p = solution[: cells + 1], solution[cells + 1 :]
        middle = float(p[cells // 2 - 1 : cells // 2 + 1].mean())
        values |= {f"u0_{sign}": float(u[0]), f"u1_{sign}": float(u[-1]), f"middle_{sign}": middle}
        print(f"{name}: u(0) = {u[0]:.3f}, u(1) = {u[-1]:.3f}, p(1/2) = {middle:.3f}")
    return values


def sample_counts() -> Numbers:
    """1300 of 1500 samples train the network; that leaves 200 to test, not 300."""
    order = np.random.default_rng(0).permutation(1500)
    train, rest = set(order[:1300].tolist()), set(order[1300:].tolist())
    shared = 300 - len(rest)
    print(f"1500 samples, {len(train)} to train: {len(rest)} are left")
    print(f"printed: 300 test samples, so at least {shared} of them ({shared / 300:.0%}) were trained on")
    return {"left": len(rest), "shared": shared}


def e2_norm() -> Numbers:
    """The norm in e2 lacks its root, so that e2 would be a squared error."""
    rng = np.random.default_rng(0)
    kappa, u = np.exp(rng.normal(size=2500)), rng.normal(1.0, 1.0, size=2500)
    error = rng.normal(size=2500)
    values: Numbers = {}
    for size in (0.01, 0.02):
        du = size * error * np.linalg.norm(u) / np.linalg.norm(error)
        e1 = float(np.linalg.norm(du) / np.linalg.norm(u))
        ratio = float((du**2 / kappa).sum() / (u**2 / kappa).sum())
        values |= {f"e1_{size:g}": e1, f"printed_{size:g}": ratio, f"holds_{size:g}": ratio**0.5}
        print(f"e1 = {e1:.2%}: e2 without the root (printed) {ratio:.4%}, with the root (holds) {ratio**0.5:.2%}")
    print(f"without the root an e1 of 0.75 % goes with an e2 near {0.0075**2:.4%}; the paper's table has 0.57 %")
    growth = {f"{name}_ratio": values[f"{name}_0.02"] / values[f"{name}_0.01"] for name in ("printed", "holds")}
    return values | growth


def parameter_count() -> Numbers:
    """No literal reading of the network has both printed numbers of parameters."""
    wanted_total, wanted_sparse = 8_252_320, 6_110_624
    first, second = np.meshgrid(np.arange(1, 257), np.arange(1, 257), indexing="ij")  # channels that are not given
    readings = totals = 0
    sparse = np.zeros(first.shape, bool)
    for pooled, side, bias in itertools.product((25, 24, 23), (10, 8, 6), (0, 1)):  # padding of both pairs, biases
        layers = network(pooled, side, first, second, bias)
        readings, totals = readings + first.size, totals + int((sum(layers) == wanted_total).sum())
        for chosen in itertools.product((0, 1), repeat=len(layers)):
            sparse |= sum(c * layer for c, layer in zip(chosen, layers, strict=True)) == wanted_sparse
    round_numbers = np.argwhere(sparse[7::8, 7::8]) * 8 + 8
    print(f"{readings:,} readings: 3x3 kernels, any padding, biases or none, 1 to 256 channels in the second pair")
    print(f"readings with {wanted_total:,} parameters in all: {totals}")
    pairs = ", ".join(f"{a} and {b}" for a, b in round_numbers)
    print(f"channels, multiples of 8, with which some of the layers have {wanted_sparse:,}: {pairs}")
    layers = network(25, 10, *round_numbers[0].tolist(), 1)
    picked = [layers[i] for i in (1, 2, 4, 6)]
    print(f"  conv 2, dense 100, conv 4, dense 5100: {' + '.join(f'{n:,}' for n in picked)} = {sum(picked):,}")
    others = [sum(network(25, side, *round_numbers[0].tolist(), 1)) for side in (10, 8, 6)]
    print(f"  but in all, by the padding of conv 3 and 4: {', '.join(f'{n:,}' for n in others)}")
    return {"readings": readings, "totals": totals, "pairs": len(round_numbers), "sparse": sum(picked)}


def network(pooled: int, side: int, first, second, bias: int) -> list:
    """Parameters of each layer: two convolutions, dense 100, two convolutions, dense 800, dense 5100.

    ``pooled`` and ``side`` are the widths of the images after the pooling and after the second pair of convolutions;
    ``first`` and ``second`` the channels of that pair.
    """
    return [
        9 * 64 + 64 * bias,
        9 * 64 * 32 + 32 * bias,
        pooled**2 * 32 * 100 + 100 * bias,
        9 * first + first * bias,
        9 * first * second + second * bias,
        side**2 * second * 800 + 800 * bias,
        800 * 5100 + 5100 * bias,
    ]


def covariance(sign: int) -> np.ndarray:
    """Covariance matrix on the centres of 25x25 cells, with the sign of the x part."""
    centre = (np.arange(25) + 0.5) / 25
    x, y = (axis.ravel() for axis in np.meshgrid(centre, centre))
    dx, dy = np.subtract.outer(x, x), np.subtract.outer(y, y)
    return VARIANCE * np.exp(sign * dx**2 / LX**2 - dy**2 / LY**2)
