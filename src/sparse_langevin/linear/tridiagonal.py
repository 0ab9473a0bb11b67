r"""The probability of g given a model, for all values of g at once; see `informed` for the model.

With A = X_m'X_m and q = X_m'y it takes log|I + gA| and q'(1/g + A)^-1 q. Reflections U that turn q into |q| e_1 and A
into a tridiagonal matrix T, with the elements a_i on its diagonal and b_i beside it, take k^3 operations once. Then for
each g, from the last row to the first one,

    d_k = a_k + 1/g,   d_i = a_i + 1/g - b_i^2/d_(i+1),   |I + gA| = prod g d_i,   q'(1/g + A)^-1 q = |q|^2/d_1.
"""

import math

import numpy as np

from sparse_langevin.runtime.jit import compiled, reassociated

AT_ONCE = 8  # factors of a product before its logarithm is taken: none is beyond 1e30


@compiled
def weights_of_g(gram, product, grid, prior, rest, half, least):
    """Return log p(g | model) up to a constant, from X_m'X_m, X_m'y, and R of the empty model and its bound."""
    k, weight = len(product), prior.copy()
    diagonal, beside, squared = tridiagonal(gram.copy(), product.copy())
    for i in range(len(grid)):
        shift, left, factors = 1.0 / grid[i], rest, 1.0
        last = 1.0
        for a in range(k - 1, -1, -1):
            value = diagonal[a] + shift
            if a < k - 1:
                value -= beside[a] * beside[a] / last
            last = max(value, shift)  # as it is but for rounding
            factors *= grid[i] * last
            if a % AT_ONCE == 0:
                weight[i] -= 0.5 * math.log(factors)
                factors = 1.0
        if k:
            left -= squared / last
        weight[i] -= half * math.log(max(left, least))
    return weight


@compiled
def tridiagonal(matrix, vector):
    """Return a_i, b_i and |q|^2; both arguments are overwritten."""
    k = len(vector)
    diagonal, beside, squared, pull = np.empty(k), np.zeros(k), dot(vector, vector), np.empty(k)
    for i in range(k):
        side = reflect(matrix, vector, pull, i) if i < k - 1 else vector[i]
        if i:
            beside[i - 1] = side
        diagonal[i] = matrix[i, i]
        for a in range(i + 1, k):
            vector[a] = matrix[i, a]
    return diagonal, beside, squared


@compiled
def reflect(matrix, vector, pull, start):
    """Reflect rows and columns from ``start`` on, as turns the vector to its first direction there; return its part."""
    v, p = vector[start:], pull[start:]
    length = math.sqrt(dot(v, v))
    if length == 0.0:
        return 0.0
    side = -length if v[0] > 0 else length
    v[0] -= side
    scale = 1.0 / (length * abs(v[0]))  # 2/|v|^2
    for a in range(len(v)):
        p[a] = scale * dot(matrix[start + a, start:], v)
    along = 0.5 * scale * dot(p, v)
    for a in range(len(v)):
        p[a] -= along * v[a]
    for a in range(len(v)):
        subtract(matrix[start + a, start:], v[a], p, p[a], v)
    return side


@reassociated
def dot(one, other):
    """Return the sum of products."""
    total = 0.0
    for a in range(len(one)):
        total += one[a] * other[a]
    return total


@reassociated
def subtract(row, first, one, second, other):
    """Subtract multiples of two vectors from a row."""
    for a in range(len(row)):
        row[a] -= first * one[a] + second * other[a]
