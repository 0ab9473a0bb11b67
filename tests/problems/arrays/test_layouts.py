"""Layouts: defaults, grids and components, names, and what a network sees."""

import numpy as np
import pytest

from sparse_langevin.problems.arrays import Variable
from sparse_langevin.problems.arrays.layouts import LAYOUTS, seen_shape
from tests.problems.arrays.small import SHAPES, variable


@pytest.mark.parametrize(
    ("shape", "layout", "components", "grid"),
    [
        ((9,), "v", 1, ()),
        ((9, 4), "v", 4, ()),
        ((9, 4, 5), "yx", 1, (4, 5)),
        ((9, 3, 4, 5), "cyx", 3, (4, 5)),
        ((9, 2, 3, 4, 5), "czyx", 2, (3, 4, 5)),
    ],
)
def test_defaults_by_dimensions(shape, layout, components, grid):
    found = Variable.of(shape)
    assert (found.layout, found.components, found.grid) == (layout, components, grid)
    assert found.size == np.prod(shape[1:], dtype=int) == found.components * found.points


def test_another_layout_can_be_named():
    assert Variable.of((9, 40), "x").grid == (40,)
    curves = Variable.of((9, 2, 40), "cx", ["p", "T"], "K")
    assert (curves.components, curves.grid, curves.label(1, "output")) == (2, (40,), "T [K]")
    assert Variable.of((9, 3, 4, 5), "zyx").grid == (3, 4, 5)
    assert Variable.of((9, 2), names=["a", "b"], units=["m", ""]).label(1, "input") == "b"
    assert Variable.of((9, 3)).label(2, "input") == "input 2"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Variable.of((9, 4), "yx"), "'yx' is for examples with 2 dimension"),
        (lambda: Variable.of((9, 4), "q"), "no layout 'q'"),
        (lambda: Variable.of((9, 0)), "at least 1"),
        (lambda: Variable.of((1,) * 6), "1 to 5 dimensions"),
        (lambda: Variable.of((9, 4), names=["a"]), "1 names were given for 4 entries"),
        (lambda: Variable.of((9, 2, 4, 4), units=["m"] * 3), "3 units were given for 2 channels"),
        (lambda: Variable.of((9, 2), names=["a", "a"]), "must differ"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_json_and_back(layout):
    made = variable(layout)
    made = variable(layout, tuple(f"n{i}" for i in range(made.components)), ("m",) * made.components)
    assert Variable.from_json(made.as_json()) == made
    assert layout in str(made)
    array = np.arange(2.0 * made.size).reshape(2, *SHAPES[layout])
    assert np.array_equal(made.parts(array)[1].ravel(), array[1].ravel())


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        ("v", "v", (10,)),
        ("v", "cyx", (7, 11, 6)),
        ("yx", "v", (6, 9, 14)),
        ("yx", "cyx", (3, 11, 6)),  # interpolated
        ("x", "yx", (37 + 9 * 14,)),
    ],
)
def test_what_a_network_sees_with_a_low_fidelity(first, second, shape):
    assert seen_shape(variable(first), variable(second), True) == shape
    assert seen_shape(variable(second), variable(first), False)[0] == variable(second).components
