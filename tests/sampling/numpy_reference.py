"""The algorithm once more, in NumPy and float64, straight from its equations: the oracle for the sampler.

Nothing is shared with the library: gradients are worked out by hand for a network of two layers, kappa0 and kappa1 are
two vectors as in the paper, and the sign convention is the paper's (g is the gradient of the log posterior).
"""

from dataclasses import dataclass, field

import numpy as np


def laplace(x, scale):
    return np.exp(-np.abs(x) / scale) / (2 * scale)


def normal(x, variance):
    return np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


@dataclass
class Network:
    """x -> W2 tanh(W1 x + b1) + b2, flattened as (b1, b2, W1, W2): the dense block, then two sparse layers."""

    inputs: int = 3
    hidden: int = 4
    outputs: int = 2

    def __post_init__(self):
        shapes = [(self.hidden,), (self.outputs,), (self.hidden, self.inputs), (self.outputs, self.hidden)]
        ends = np.cumsum([int(np.prod(s)) for s in shapes])
        self.parts = [(slice(e - int(np.prod(s)), e), s) for s, e in zip(shapes, ends, strict=True)]
        self.size = int(ends[-1])
        self.dense = slice(0, int(ends[1]))
        self.layers = [self.parts[2][0], self.parts[3][0]]

    def forward(self, beta, x):
        b1, b2, w1, w2 = (beta[s].reshape(shape) for s, shape in self.parts)
        hidden = np.tanh(x @ w1.T + b1)
        return hidden, hidden @ w2.T + b2

    def gradient(self, beta, x, d_output):
        """Pull the derivative with respect to the outputs back to the parameters."""
        _, _, _, w2 = (beta[s].reshape(shape) for s, shape in self.parts)
        hidden, _ = self.forward(beta, x)
        d_hidden = (d_output @ w2) * (1 - hidden**2)
        pieces = [d_hidden.sum(0), d_output.sum(0), d_hidden.T @ x, d_output.T @ hidden]
        return np.concatenate([p.ravel() for p in pieces])


@dataclass
class Reference:
    """State and step of any of the four algorithms."""

    network: Network
    beta: np.ndarray
    num_data: int
    preconditioned: bool
    adaptive: bool
    categorical: bool = False
    sigma0: float = 1.0
    v0: tuple = (0.1, 0.1)
    v1: tuple = (10.0, 10.0)
    a: float = 1.0
    b: tuple = (None, None)
    nu: float = 1.0
    lam: float = 1.0
    eta: float = 1e-3
    sigma: float = 1.0
    momentum: float = 0.0
    summed: bool = False
    k: int = 0
    v: np.ndarray = field(init=False)
    delta: list = field(init=False)
    pruned: np.ndarray = field(init=False)

    def __post_init__(self):
        size = self.network.size
        self.v, self.velocity = np.zeros(size), np.zeros(size)
        self.rho = np.full(size, 0.5)
        self.kappa0, self.kappa1 = np.zeros(size), np.zeros(size)
        for layer, v0, v1 in zip(self.network.layers, self.v0, self.v1, strict=True):
            self.kappa0[layer], self.kappa1[layer] = 0.5 / v0, 0.5 / v1
        self.delta = [0.5, 0.5]
        self.included = np.full(size, 0.5)  # what delta and sigma follow: rho, or with gamma summed out r
        self.weighted = np.zeros(size)
        self.pruned = np.zeros(size, dtype=bool)

    def log_likelihood_gradient(self, x, y):
        _, output = self.network.forward(self.beta, x)
        if self.categorical:
            p = np.exp(output - output.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            d_output = np.eye(p.shape[1])[y] - p
            rss = 0.0
        else:
            d_output = (y - output) / self.sigma**2
            rss = float(((y - output) ** 2).sum())
        return self.network.gradient(self.beta, x, d_output), rss

    def step(self, x, y, z, eps, alpha, omega, tau, share=None):
        self.k += 1
        n = len(x)
        g, rss = self.log_likelihood_gradient(x, y)
        g = self.num_data / n * g
        d = self.network.dense
        g[d] -= self.beta[d] / self.sigma0**2
        for layer in self.network.layers:
            beta = self.beta[layer]
            if self.adaptive:
                g[layer] -= self.kappa0[layer] * np.sign(beta) / self.sigma + self.kappa1[layer] * beta / self.sigma**2
            else:
                g[layer] -= beta / self.sigma0**2
        metric = np.ones_like(g)
        if self.preconditioned:
            self.v = g * g if self.k == 1 else alpha * self.v + (1 - alpha) * g * g
            metric = 1 / (self.eta + np.sqrt(self.v))
        drift = eps * metric * g * ~self.pruned
        noise = np.sqrt(2 * eps * metric / tau) * z * ~self.pruned
        moved = self.beta + drift + noise if not self.momentum else self.baoab(g, metric, eps, tau, z)
        self.velocity[self.pruned] = 0.0
        self.beta = np.where(self.pruned, 0.0, moved)
        if self.adaptive:
            self.update_latents(omega, rss, n, y)
        elif not self.categorical:
            self.update_sigma(omega, rss, n, y)
        if share is not None:
            for layer in self.network.layers:
                count = round(share * self.beta[layer].size)
                smallest = np.argsort(np.abs(self.beta[layer]), kind="stable")[:count]
                self.pruned[layer] = False
                self.pruned[np.arange(self.network.size)[layer][smallest]] = True
            self.beta[self.pruned] = 0.0
        return np.linalg.norm(drift), np.linalg.norm(noise)

    def baoab(self, g, metric, eps, tau, z):
        """Hamilton's equations with mass 1/G: a kick, half a drift, friction and noise, the other half."""
        c, mass = self.momentum, 1 / metric
        h = np.sqrt(2 * eps * (1 - c) / (1 + c))  # the step in time
        p = self.velocity * np.sqrt(mass)
        p = p + h * g
        x = self.beta + h / 2 * p / mass
        p = c * p + np.sqrt((1 - c**2) * mass / tau) * z
        x = x + h / 2 * p / mass
        self.velocity = p / np.sqrt(mass)
        return x

    def update_latents(self, omega, rss, n, y):
        for i, layer in enumerate(self.network.layers):
            beta, v0, v1, p = self.beta[layer], self.v0[i], self.v1[i], self.beta[layer].size
            slab = normal(beta, self.sigma**2 * v1) * self.delta[i]
            spike = laplace(beta, self.sigma * v0) * (1 - self.delta[i])
            r = slab / (slab + spike)
            if self.summed:  # the drift of log(slab + spike); rho is an average with weights k (k + 1) (k + 2)
                self.included[layer], self.kappa0[layer], self.kappa1[layer] = r, (1 - r) / v0, r / v1
                self.weighted[layer] += self.k * (self.k + 1) * (self.k + 2) * r
                self.rho[layer] = self.weighted[layer] / sum(j * (j + 1) * (j + 2) for j in range(1, self.k + 1))
            else:
                self.rho[layer] = (1 - omega) * self.rho[layer] + omega * r
                self.kappa0[layer] = (1 - omega) * self.kappa0[layer] + omega * (1 - self.rho[layer]) / v0
                self.kappa1[layer] = (1 - omega) * self.kappa1[layer] + omega * self.rho[layer] / v1
                self.included[layer] = self.rho[layer]
            b = p if self.b[i] is None else self.b[i]
            target = (self.included[layer].sum() + self.a) / (self.a + b + p)
            self.delta[i] = (1 - omega) * self.delta[i] + omega * target
        if not self.categorical:
            self.update_sigma(omega, rss, n, y)

    def update_sigma(self, omega, rss, n, y):
        quad_a = self.num_data * y[0].size + self.nu
        quad_b, quad_c = 0.0, self.num_data / n * rss + self.nu * self.lam
        if self.adaptive:
            for layer in self.network.layers:
                quad_a += int((~self.pruned[layer]).sum())
                quad_b += (self.kappa0[layer] * np.abs(self.beta[layer])).sum()
                quad_c += (self.kappa1[layer] * self.beta[layer] ** 2).sum()
        root = max(np.roots([quad_a, -quad_b, -quad_c]).real)
        self.sigma = (1 - omega) * self.sigma + omega * root
