"""A small share of the campaign in every run of the tests; ``make faults`` is all of it."""

import random

import pytest

from tests.campaign import arguments, damage, hostile
from tests.campaign.ground import Ground
from tests.campaign.trials import Broken


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    made = Ground(tmp_path_factory.mktemp("campaign") / "ground")
    made.make()
    return made


def test_a_share_of_the_damage(ground, tmp_path):
    """Some 60 trials, of every format two flips and every other time a cut; what draws takes too long here."""
    whole = damage.trials(random.Random(0))
    assert len({trial.name for trial in whole}) == len(whole) == damage.NUMBER
    chosen, chance = [], random.Random(1)
    for number, group in enumerate(damage.FORMATS):
        quick = [trial for trial in whole if trial.group == group and not trial.facts[3].startswith(damage.SLOW)]
        for kind, count in (("flip", 2), ("cut", number % 2)):
            chosen += chance.sample([trial for trial in quick if trial.facts[1] == kind], count)
    assert len(chosen) == 2 * len(damage.FORMATS) + len(damage.FORMATS) // 2
    broken = []
    for number, trial in enumerate(chosen):
        (scratch := tmp_path / str(number)).mkdir()
        try:
            damage.attempt(ground, scratch, trial)
        except Broken as error:
            broken.append(f"{trial.name}: {error}")
    assert not broken


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
