"""The mixed finite element solver against manufactured solutions, scikit-fem, and conservation."""

import math

import numpy as np
import pytest
import skfem
from scipy import sparse
from scipy.sparse.linalg import spsolve
from skfem.helpers import dot

from benchmarks.darcy_peer import divergence, mass
from sparse_langevin.problems.darcy import KLE, Dirichlet, Grid, Neumann, Solver, energy, solve
from sparse_langevin.problems.darcy.solver import check_permeabilities

rng = np.random.default_rng(0)


def gauss_cell_means(function, grid, order=5):
    """Mean of a function over each cell, by Gauss quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    x, y = grid.centres()
    total = np.zeros(grid.shape)
    for s, ws in zip(nodes, weights, strict=True):
        for t, wt in zip(nodes, weights, strict=True):
            total += ws * wt / 4 * function(x + s * grid.hx / 2, y + t * grid.hy / 2)
    return total


class Manufactured:
    """p = cos(pi x) cos(pi y) + x^2 with kappa = e^(x+y); no flow through y = 0 and y = 1."""

    def kappa(self, x, y):
        return np.exp(x + y)

    def pressure(self, x, y):
        return np.cos(np.pi * x) * np.cos(np.pi * y) + x**2

    def ux(self, x, y):
        return self.kappa(x, y) * (np.pi * np.sin(np.pi * x) * np.cos(np.pi * y) - 2 * x)

    def uy(self, x, y):
        return self.kappa(x, y) * np.pi * np.cos(np.pi * x) * np.sin(np.pi * y)

    def source(self, x, y):
        k = self.kappa(x, y)
        second = -(np.pi**2) * 2 * np.cos(np.pi * x) * np.cos(np.pi * y) + 2
        return self.ux(x, y) + self.uy(x, y) - k * second


def errors(n):
    exact, grid = Manufactured(), Grid(n, n)
    solution = Solver(
        grid,
        source=gauss_cell_means(exact.source, grid),
        left=Dirichlet(lambda y: exact.pressure(0.0, y)),
        right=Dirichlet(lambda y: exact.pressure(1.0, y)),
    ).solve(exact.kappa(*grid.centres()))
    pressure = solution.pressure - exact.pressure(*grid.centres())
    x_edge, y_mid = np.meshgrid(np.arange(n + 1) * grid.hx, (np.arange(n) + 0.5) * grid.hy)
    x_mid, y_edge = np.meshgrid((np.arange(n) + 0.5) * grid.hx, np.arange(n + 1) * grid.hy)
    ux, uy = grid.split(solution.velocity)
    flux = np.sqrt((ux - exact.ux(x_edge, y_mid)) ** 2).mean() + np.sqrt((uy - exact.uy(x_mid, y_edge)) ** 2).mean()
    # L2 norm of the velocity error over each cell, by quadrature of the RT0 field.
    nodes, weights = np.polynomial.legendre.leggauss(4)
    cx, cy = grid.centres()
    total = 0.0
    for s, ws in zip(nodes, weights, strict=True):
        for t, wt in zip(nodes, weights, strict=True):
            x, y = cx + s * grid.hx / 2, cy + t * grid.hy / 2
            along_x = ux[:, :-1] * (1 - s) / 2 + ux[:, 1:] * (1 + s) / 2
            along_y = uy[:-1] * (1 - t) / 2 + uy[1:] * (1 + t) / 2
            total += ws * wt / 4 * ((along_x - exact.ux(x, y)) ** 2 + (along_y - exact.uy(x, y)) ** 2).mean()
    return math.sqrt((pressure**2).mean()), math.sqrt(total), flux


def test_rates_of_convergence():
    sizes = np.array([8, 16, 32, 64, 128])
    table = np.array([errors(n) for n in sizes])
    rates = [-np.polyfit(np.log(sizes), np.log(column), 1)[0] for column in table.T]
    assert rates[0] == pytest.approx(2, abs=0.1), "pressure at centroids"
    assert rates[1] == pytest.approx(1, abs=0.1), "velocity in L2"
    assert rates[2] == pytest.approx(2, abs=0.1), "flux at midpoints"


@pytest.mark.parametrize("grid", [Grid(7, 7), Grid(5, 12, 2.0, 0.7), Grid(1, 4), Grid(3, 1), Grid(1, 1)])
def test_patch_of_linear_pressure(grid):
    """p = 2 - 3x + 5y and kappa = 4: velocity (12, -20), whatever the mix of sides."""
    x, y = grid.centres()

    def p(x, y):
        return 2 - 3 * x + 5 * y

    pressure_sides = {
        "left": Dirichlet(lambda t: p(0.0, t)),
        "right": Dirichlet(lambda t: p(grid.lx, t)),
        "bottom": Dirichlet(lambda t: p(t, 0.0)),
        "top": Dirichlet(lambda t: p(t, grid.ly)),
    }
    flow_sides = {"left": Neumann(-12.0), "right": Neumann(12.0), "bottom": Neumann(20.0), "top": Neumann(-20.0)}
    for flow in ([], ["top"], ["left", "bottom"], ["right", "bottom", "top"], list(flow_sides)):
        sides = pressure_sides | {name: flow_sides[name] for name in flow}
        solution = Solver(grid, source=0.0, **sides).solve(np.full(grid.shape, 4.0))
        ux, uy = grid.split(solution.velocity)
        assert np.abs(ux - 12).max() < 1e-11 and np.abs(uy + 20).max() < 1e-11
        expected = p(x, y) - (p(x, y).mean() if len(flow) == 4 else 0.0)
        assert np.abs(solution.pressure - expected).max() < 1e-11


def skfem_solution(grid, kappa, source):
    """The same problem with scikit-fem's RT0 on quadrilaterals, assembled as a saddle point system."""
    mesh = skfem.MeshQuad.init_tensor(np.linspace(0, grid.lx, grid.nx + 1), np.linspace(0, grid.ly, grid.ny + 1))
    velocity = skfem.Basis(mesh, skfem.ElementQuadRT0())
    pressure = velocity.with_element(skfem.ElementQuad0())
    centre = mesh.p[:, mesh.t].mean(1)
    i = np.floor(centre[0] / grid.hx).astype(int)
    j = np.floor(centre[1] / grid.hy).astype(int)
    k = pressure.zeros()
    f = pressure.zeros()
    k[pressure.element_dofs[0]] = kappa[j, i]
    f[pressure.element_dofs[0]] = source[j, i]

    @skfem.LinearForm
    def load(q, w):
        return -w["f"] * q

    @skfem.LinearForm
    def boundary(v, w):
        return -dot(v, w.n) * w["p"]

    a = mass.assemble(velocity, k=pressure.interpolate(k))
    b = divergence.assemble(velocity, pressure)
    left = mesh.facets_satisfying(lambda x: np.isclose(x[0], 0.0), boundaries_only=True)
    facets = skfem.FacetBasis(mesh, skfem.ElementQuadRT0(), facets=left)
    g = boundary.assemble(facets, p=1.0)
    system = sparse.bmat([[a, b.T], [b, None]], format="csc")
    right_side = np.concatenate([g, load.assemble(pressure, f=pressure.interpolate(f))])
    closed = mesh.facets_satisfying(lambda x: np.isclose(x[1], 0.0) | np.isclose(x[1], grid.ly), boundaries_only=True)
    solution = skfem.solve(*skfem.condense(system, right_side, D=velocity.get_dofs(closed).all()), solver=solver)
    u, p = solution[: velocity.N], solution[velocity.N :]
    # Normal components at facet midpoints, in our numbering and orientation.
    ours = np.zeros(grid.edges)
    midpoint = mesh.p[:, mesh.facets].mean(1)
    for facet in range(mesh.facets.shape[1]):
        cell = mesh.f2t[0, facet]
        x, y = midpoint[:, facet]
        column, row = x / grid.hx, y / grid.hy
        vertical = np.isclose(column, round(column)) and not np.isclose(row, round(row))
        local = _at(velocity, u, cell, x, y)
        if vertical:
            ours[int(row) * (grid.nx + 1) + round(column)] = local[0]
        else:
            ours[grid.x_edges + round(row) * grid.nx + int(column)] = local[1]
    field = np.zeros(grid.shape)
    field[j, i] = p[pressure.element_dofs[0]]
    return ours, field


def solver(matrix, right_side):
    return spsolve(matrix.tocsc(), right_side)


def _at(basis, u, cell, x, y):
    """RT0 velocity of scikit-fem at a point of one cell."""
    point = basis.mapping.invF(np.array([[[x]], [[y]]]), tind=np.array([cell]))
    total = np.zeros(2)
    for i in range(basis.Nbfun):
        phi = basis.elem.gbasis(basis.mapping, point[:, 0], i, tind=np.array([cell]))[0]
        total += u[basis.element_dofs[i, cell]] * np.asarray(phi)[:, 0, 0]
    return total


@pytest.mark.parametrize("grid", [Grid(8, 8), Grid(6, 11), Grid(10, 5, 2.0, 0.5), Grid(12, 12)])
@pytest.mark.parametrize("draw", range(5))
def test_against_scikit_fem(grid, draw):
    generator = np.random.default_rng(100 * draw + grid.nx)
    kappa = np.exp(1.5 * generator.normal(size=grid.shape))
    source = generator.normal(size=grid.shape)
    ours = Solver(grid, source=source).solve(kappa)
    velocity, pressure = skfem_solution(grid, kappa, source)
    for part, other in zip(grid.split(ours.velocity), grid.split(velocity), strict=True):
        assert np.abs(part - other).max() <= 1e-10 * np.abs(other).max()
    assert np.abs(ours.pressure - pressure).max() <= 1e-10 * np.abs(pressure).max()


@pytest.mark.parametrize("decades", [0, 2, 4, 6])
def test_mass_is_conserved(decades):
    """Every cell to 1e-10, and the whole domain to 1e-12 of what flows, up to a contrast of 1e6."""
    grid = Grid(50, 50)
    solver = Solver(grid)
    for draw in range(5):
        generator = np.random.default_rng(draw)
        solution = solver.solve(10.0 ** (decades * (generator.random(grid.shape) - 0.5)))
        assert solution.mass_residual <= 1e-10
        assert solution.mass_residual == np.abs(grid.divergence(solution.velocity) - 1).max()
        assert abs(balance(grid, solution.velocity)) <= 1e-12 * max(1.0, throughput(grid, solution.velocity))


def balance(grid, velocity):
    ux, uy = grid.split(velocity)
    return (ux[:, -1] - ux[:, 0]).sum() * grid.hy + (uy[-1] - uy[0]).sum() * grid.hx - grid.lx * grid.ly


def throughput(grid, velocity):
    return np.abs(grid.split(velocity)[0][:, -1]).sum() * grid.hy


def test_residual_is_honest_at_extreme_contrast():
    grid = Grid(50, 50)
    solution = solve(10.0 ** (8 * np.random.default_rng(0).random(grid.shape)))
    assert solution.mass_residual == np.abs(grid.divergence(solution.velocity) - 1).max()
    assert 0 < solution.mass_residual < 1e-6


def test_pure_neumann():
    grid = Grid(9, 6, 1.5, 1.0)
    kappa = np.exp(rng.normal(size=grid.shape))
    closed = {"left": Neumann(), "bottom": Neumann(), "top": Neumann()}
    solution = Solver(grid, source=1.0, right=Neumann(grid.lx), **closed).solve(kappa)
    assert solution.mass_residual < 1e-12
    assert abs(solution.pressure.mean()) < 1e-14
    # The same flow with the pressure of the right side held constant differs, but both balance.
    with pytest.raises(ValueError, match=r"the source is 1.5 in total and the outflow 1:"):
        Solver(grid, source=1.0, right=Neumann(1.0), **closed)


def test_profiles_as_arrays_and_functions_agree():
    grid = Grid(6, 4)
    y = (np.arange(4) + 0.5) / 4
    kappa = np.exp(rng.normal(size=grid.shape))
    array = Solver(grid, left=Dirichlet(2 + y)).solve(kappa)
    function = Solver(grid, left=Dirichlet(lambda t: 2 + t)).solve(kappa)
    np.testing.assert_allclose(array.velocity, function.velocity, atol=1e-12)


def test_one_solver_for_many_fields_forgets_nothing():
    solver = Solver((12, 9))
    fields = [np.exp(rng.normal(size=(9, 12))) for _ in range(3)]
    first = [solver.solve(k).velocity for k in fields]
    again = [solver.solve(k).velocity for k in reversed(fields)][::-1]
    alone = [solve(k).velocity for k in fields]
    for a, b, c in zip(first, again, alone, strict=True):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=0, atol=1e-12)


def test_velocity_does_not_scale_with_kappa_in_pressure_driven_units():
    """Scaling kappa by c scales a pressure-driven flow by c and leaves the pressure."""
    kappa = np.exp(rng.normal(size=(8, 8)))
    one, ten = solve(kappa, source=0.0), solve(10 * kappa, source=0.0)
    np.testing.assert_allclose(ten.velocity, 10 * one.velocity, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ten.pressure, one.pressure, atol=1e-12)
    assert energy(Grid(8, 8), one.velocity) > 0


@pytest.mark.parametrize(
    ("kappa", "message"),
    [
        (np.ones((4, 5)), r"shape \(ny, nx\) = \(5, 4\), got \(4, 5\)"),
        (np.full((5, 4), -1.0), r"positive and finite, but kappa\[0, 0\] = -1"),
        (np.where(np.arange(20).reshape(5, 4) == 7, np.nan, 1.0), r"kappa\[1, 3\] = nan \(invalid cells: 1 of 20\)"),
        (np.zeros((5, 4)), "positive"),
    ],
)
def test_bad_fields(kappa, message):
    with pytest.raises(ValueError, match=message):
        Solver((4, 5)).solve(kappa)


def test_cells_too_flat_for_double_precision():
    with pytest.raises(ValueError, match=r"cannot be solved in double precision: its matrix is singular"):
        Solver(Grid(5, 4, 1e9, 1e-9)).solve(np.ones((4, 5)))


def test_bad_problems():
    with pytest.raises(ValueError, match="source must be a number or have shape"):
        Solver((4, 5), source=np.ones((4, 5)))
    with pytest.raises(ValueError, match="one number, or 5 values"):
        Solver((4, 5), left=Dirichlet([1.0, 2.0]))
    with pytest.raises(TypeError, match="must be Dirichlet"):
        Solver((4, 5), left=1.0)
    with pytest.raises(ValueError, match="at least one cell"):
        Grid(0, 3)
    with pytest.raises(ValueError, match="sides of a grid"):
        Grid(3, 3, -1.0)
    with pytest.raises(ValueError, match="shape"):
        solve(np.ones(5))


@pytest.mark.parametrize("scale", [1e308, 1e15])
def test_what_double_precision_cannot_solve_is_refused(scale):
    """Fields near the largest number overflow; at contrasts far above 1e12 mass is lost."""
    rough = np.where(np.random.default_rng(0).random((50, 50)) < 0.3, scale, 1.0)
    field = np.full((8, 8), scale) if scale > 1e300 else rough
    with pytest.raises(ValueError, match=r"cannot be solved in double precision.* a contrast of at most about 1e12"):
        Solver(field.shape[::-1]).solve(field)
    assert Solver((50, 50)).solve(np.where(rough > 1, 1e10, 1.0)).mass_residual < 1e-8


def test_grids_larger_than_the_machine_are_refused():
    with pytest.raises(ValueError, match=r"a grid of 1000000 by 1000000 cells needs about .* GB of memory"):
        Solver((10**6, 10**6))
    with pytest.raises(ValueError, match=r"the expansion on 1000000 by 1000 cells needs about .* use fewer cells"):
        KLE(Grid(10**6, 1000))


def test_fields_are_counted_from_the_first_of_their_piece():
    fields = np.ones((3, 5, 4))
    fields[1, 0, 2] = -1.0
    with pytest.raises(ValueError, match=r"sample 41: kappa must be positive"):
        check_permeabilities(fields, Grid(4, 5), 40)
