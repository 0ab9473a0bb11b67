import math

import pytest

from sparse_langevin import Constant, Cosine, OneMinus, Polynomial, Switch
from sparse_langevin.sampling.schedules import as_schedule, describe, value_at


def test_polynomial():
    schedule = Polynomial(0.05, 2.0, 1 / 3, cap=0.03)
    assert schedule(1) == pytest.approx(0.03)
    assert schedule(998) == pytest.approx(0.05 * 1000 ** (-1 / 3))


def test_cosine_starts_high_ends_low_and_restarts():
    schedule = Cosine(1.0, 100, final=0.1)
    assert schedule(50) == pytest.approx(0.55)
    assert schedule(25) == pytest.approx(0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2)
    assert schedule(100) == schedule(1000) == 0.1
    values = [Cosine(1.0, 100, cycles=4)(k) for k in range(1, 101)]
    restarts = [k for k in range(1, 100) if values[k] > values[k - 1]]
    assert restarts == [25, 50, 75] and values[24] == values[49] == 0.0


def test_switch_also_in_every_period():
    once, again = Switch(math.inf, 1.0, 2), Switch(math.inf, 1.0, 2, period=5)
    assert [once(k) for k in range(1, 8)] == [math.inf] * 2 + [1.0] * 5
    assert [again(k) for k in range(1, 11)] == 2 * ([math.inf] * 2 + [1.0] * 3)


def test_one_minus_approaches_one():
    schedule = OneMinus(Polynomial(1.0, 100.0, 0.7))
    assert schedule(1) == pytest.approx(1 - 101**-0.7)
    assert 0.999 < schedule(10**6) < 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Polynomial(-1.0),
        lambda: Polynomial(math.inf),
        lambda: Polynomial(1.0, -1.0),
        lambda: Polynomial(1.0, 0.0, -0.5),
        lambda: Polynomial(1.0, cap=-0.1),
        lambda: Cosine(-1.0, 10),
        lambda: Cosine(1.0, 0),
        lambda: Cosine(1.0, 10, final=-1.0),
        lambda: Cosine(1.0, 10, cycles=11),
        lambda: Constant(math.nan),
        lambda: Switch(math.nan, 1.0, 10),
        lambda: Switch(1.0, 2.0, -1),
        lambda: Switch(1.0, 2.0, 1, period=0),
    ],
)
def test_bad_schedules_say_what_was_wrong(make):
    with pytest.raises(ValueError, match=r"must be .*, got"):
        make()


def test_numbers_become_constants_and_other_things_are_refused():
    assert as_schedule(0.1, "step_size") == Constant(0.1)
    with pytest.raises(TypeError, match="step_size must be a number or a schedule"):
        as_schedule("0.1", "step_size")
    with pytest.raises(TypeError, match="got True"):
        as_schedule(True, "step_size")


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_values_out_of_range_name_the_step(value):
    with pytest.raises(ValueError, match=r"omega is .* at step 7, but must lie in \[0, 1\]"):
        value_at(lambda step: value, 7, "omega", high=1.0)


def test_descriptions_have_no_addresses():
    assert describe(Polynomial(1.0)) == repr(Polynomial(1.0))
    assert "0x" not in describe(lambda k: 0.1)
    assert "0x" not in describe(OneMinus(lambda k: 0.1))


@pytest.mark.parametrize(("steps", "cycles"), [(100, 3), (101, 4), (12, 12), (99, 3)])
def test_cycles_of_a_cosine_and_a_switch_begin_together(steps, cycles):
    """Also where the number of cycles does not divide that of the steps; what is left over belongs to no cycle."""
    period = steps // cycles
    size = Cosine(1.0, steps, final=0.1, cycles=cycles)
    tau = Switch(math.inf, 1.0, period // 2, period, cycles)
    restarts = [k for k in range(2, steps + 10) if size(k) > size(k - 1)]
    assert restarts == [i * period + 1 for i in range(1, cycles)] if period > 1 else True
    if period > 1:
        assert [k for k in range(2, steps + 10) if tau(k) > tau(k - 1)] == restarts
    assert [size(k) for k in range(period * cycles, steps + 10)] == [0.1] * (steps + 10 - period * cycles)
    assert {tau(k) for k in range(period * cycles + 1, steps + 10)} == {1.0}
