"""A small share of the campaign in every run of the tests; ``make faults`` is all of it."""

import random

import pytest

from tests.campaign import arguments, hostile
from tests.campaign.ground import Ground
from tests.campaign.trials import Broken


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    made = Ground(tmp_path_factory.mktemp("campaign") / "ground")
    made.make()
    return made


def quick(trial):
    """Whether a trial takes no more than seconds."""
    slow = trial.group in ("reproduce", "demo") or trial.facts[0] == "fresh"
    return not (slow or "runs/half" in trial.name or "pipe" in trial.name)


@pytest.mark.parametrize(("part", "count"), [(arguments, 25), (hostile, 15)], ids=["arguments", "hostile"])
def test_a_share_of_the_trials(part, count, ground, tmp_path):
    whole = part.trials(random.Random(0))
    assert len({trial.name for trial in whole}) == len(whole) == part.NUMBER
    broken = []
    for number, trial in enumerate(random.Random(1).sample([t for t in whole if quick(t)], count)):
        (scratch := tmp_path / str(number)).mkdir()
        try:
            part.attempt(ground, scratch, trial)
        except Broken as error:
            broken.append(f"{trial.name}: {error}")
    assert not broken
