"""The paper's flow problem by scikit-fem: RT0-P0 with SciPy's spsolve on the saddle point system.

Everything that does not depend on kappa is made once, outside the clock.
"""

from collections.abc import Callable

import numpy as np
import skfem
from scipy import sparse
from scipy.sparse.linalg import spsolve
from skfem.helpers import div, dot


@skfem.BilinearForm
def mass(u, v, w):
    return dot(u, v) / w["k"]


@skfem.BilinearForm
def divergence(u, q, w):
    return -div(u) * q


@skfem.LinearForm
def load(q, w):
    return -1.0 * q


@skfem.LinearForm
def inflow(v, w):
    return -dot(v, w.n)


def solver(n: int) -> Callable[[np.ndarray], np.ndarray]:
    """scikit-fem's solver of the paper's problem on n by n cells; returns the pressure in its own order."""
    line = np.linspace(0, 1, n + 1)
    mesh = skfem.MeshQuad.init_tensor(line, line)
    velocity = skfem.Basis(mesh, skfem.ElementQuadRT0())
    pressure = velocity.with_element(skfem.ElementQuad0())
    i, j = np.floor(mesh.p[:, mesh.t].mean(1) * n).astype(int)
    b = divergence.assemble(velocity, pressure)
    left = mesh.facets_satisfying(lambda x: np.isclose(x[0], 0.0), boundaries_only=True)
    g = inflow.assemble(skfem.FacetBasis(mesh, skfem.ElementQuadRT0(), facets=left))
    right_side = np.concatenate([g, load.assemble(pressure)])
    closed = mesh.facets_satisfying(lambda x: np.isclose(x[1], 0.0) | np.isclose(x[1], 1.0), boundaries_only=True)
    fixed = velocity.get_dofs(closed).all()

    def solve(kappa: np.ndarray) -> np.ndarray:
        k = pressure.zeros()
        k[pressure.element_dofs[0]] = kappa[j, i]
        a = mass.assemble(velocity, k=pressure.interpolate(k))
        system = sparse.bmat([[a, b.T], [b, None]], format="csc")
        solution = skfem.solve(*skfem.condense(system, right_side, D=fixed), solver=lambda m, r: spsolve(m.tocsc(), r))
        field = np.zeros((n, n))
        field[j, i] = solution[velocity.N :][pressure.element_dofs[0]]
        return field

    return solve
