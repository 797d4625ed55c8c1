"""What the panels show of an hour's worth of trouble, played in a minute: asked of a real Prometheus, as Grafana does.

The Prometheus has scraped the real program through all that panels tell of (`recording`).
"""

import asyncio
from typing import Final

import pytest

from app.core.model.probing import ShootState
from tests.chart.dashboards.asking import answer, values
from tests.chart.dashboards.programs import PROBER_JOB, WEEDER_JOB
from tests.chart.dashboards.reading import (
    SEED,
    SHOOT,
    dashboard,
    filled,
    panels,
    queries,
    query_of,
    variables,
)
from tests.chart.dashboards.recording import (
    ASLEEP,
    LEFT,
    PAUSED,
    PROTECTED,
    RECOVERS,
    SHOOTS,
    WELL,
    Recording,
)
from tests.chart.dashboards.server import LEAN, SEEDS, Series, sane

pytestmark = [
    pytest.mark.real,
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # files are written, processes started
    pytest.mark.timeout(240),  # the first test waits for the recording
    pytest.mark.asyncio(loop_scope="session"),
]
NEVER: Final = {
    f"{SEED} / Failures of our own / A",
    f"{SEED} / Failures of our own / C",
    f"{SEED} / Controllers out of reach / A",
    f"{SEED} / Answers cut off / B",
}
"""What has to stay at 0: a mistake of the program's own, and what the recorded seed gives no reason for."""
MOST: Final = {"percentunit": 1.0, "s": 120.0, "dtdurations": 120.0}
"""By unit, what cannot be more within two minutes."""


async def number(recording: Recording, panel: str, on: str = SEED, **chosen: str) -> float:
    """What a panel with one number shows."""
    (found,) = await answer(recording, query_of(on, panel), **chosen)
    return found.last


async def by(
    recording: Recording,
    label: str,
    panel: str,
    letter: str = "A",
    *,
    on: str = SEED,
    **chosen: str,
) -> dict[str, float]:
    """The last values of a panel, by one label."""
    found = await answer(recording, query_of(on, panel, letter), **chosen)
    return {each.labels[label]: each.last for each in found}


@pytest.mark.parametrize("asked", list(queries()), ids=str)
async def test_every_query_has_data_that_a_panel_can_draw(recording, asked):
    found = await answer(recording, asked)
    assert found
    assert all(sane(each) for each in found)
    happened = any(any(each.values) for each in found)
    assert happened == (str(asked) not in NEVER), "a panel was tried with nothing but zeros"


@pytest.mark.parametrize("asked", [each for each in queries() if each.unit in MOST], ids=str)
async def test_shares_are_at_most_one_and_no_time_is_longer_than_the_recording(recording, asked):
    for series in await answer(recording, asked):
        least = -2.0 if asked.signed else 0.0
        assert all(least <= each <= MOST[asked.unit] for each in series.values), series.labels


@pytest.mark.parametrize("asked", list(queries()), ids=str)
async def test_a_query_finds_nothing_of_a_seed_that_was_not_chosen(recording, asked):
    assert await answer(recording, asked, seed="another") == []


# What can be chosen.


@pytest.mark.parametrize(
    ("on", "name", "expected"),
    [
        (SEED, "seed", SEEDS),
        (SEED, "job", (PROBER_JOB, WEEDER_JOB)),
        (SHOOT, "seed", SEEDS),
        (SHOOT, "job", (PROBER_JOB, WEEDER_JOB)),
        (SHOOT, "namespace", SHOOTS),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_a_variable_offers_what_there_is(recording, on, name, expected):
    asked = filled(variables(dashboard(on))[name]["query"]["query"], values(recording))
    selector, label = asked.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
    assert await recording.prometheus.label_values(label, selector) == sorted(expected)


async def test_without_series_for_each_shoot_those_in_need_can_be_chosen_still(recording):
    query = variables(dashboard(SHOOT))["namespace"]["query"]["query"]
    asked = filled(query, values(recording, seed=LEAN))
    selector = asked.removeprefix("label_values(").removesuffix(", namespace)")
    found = await recording.prometheus.label_values("namespace", selector)
    assert {PROTECTED, LEFT} <= set(found)


# The first row: is it well, is anything protected?


async def test_the_first_row_says_what_is_true_at_the_end(recording):
    assert await number(recording, "Protected shoots") == 1
    assert 0 < await number(recording, "Longest protection") < recording.seconds
    assert await number(recording, "Controllers at 0") == 2 + 3, (
        "one is left alone, three were left"
    )
    assert await number(recording, "Without verdict") == 1 / (len(SHOOTS) - len((LEFT, ASLEEP)))
    assert await number(recording, "Replicas down") == 1
    assert await number(recording, "Rights missing") == 3
    assert await number(recording, "Decided by people") == 3, "two pauses, and ignore-scaling"
    assert await by(recording, "loop", "Leaders") == {"prober": 1, "weeder": 1}


async def test_what_is_protected_is_told_with_the_instant_and_the_number_at_0(recording):
    since = await by(recording, "namespace", "Protected, and since when")
    assert set(since) == {PROTECTED, LEFT}
    assert all(recording.begun < each / 1000 < recording.ended for each in since.values())
    at_zero = await by(recording, "namespace", "Protected, and since when", "B")
    assert at_zero == {PROTECTED: 2, LEFT: 3}


async def test_a_hibernated_shoot_has_its_controllers_at_0_and_is_no_trouble_of_the_seed(recording):
    told = 'max(dwd_shoot_dependents_at_zero{seed="%s", namespace="%s"})'
    for seed in SEEDS:
        (series,) = await recording.prometheus.at(told % (seed, ASLEEP), recording.ended)
        assert series.last == 3
        shown = await by(recording, "namespace", "Protected, and since when", "B", seed=seed)
        assert ASLEEP not in shown


async def test_before_anything_happened_nothing_is_protected_and_nothing_at_0(recording):
    before = {}
    for panel in ("Protected shoots", "Controllers at 0", "Longest protection"):
        asked = query_of(SEED, panel)
        expression = filled(asked.expression, values(recording))
        found = await recording.prometheus.at(expression, recording.begun)
        before[panel] = [each.last for each in found]
    assert before == {"Protected shoots": [0], "Controllers at 0": [0], "Longest protection": []}


# Two replicas, a hand-over, a process that comes back, several seeds.


async def test_no_shoot_is_counted_twice_while_the_leader_changes(recording):
    found = await answer(recording, query_of(SEED, "Shoots by state"))
    sums: dict[float, float] = {}
    for series in found:
        for at, value in series.points:
            sums[at] = sums.get(at, 0) + value
    assert max(sums.values()) == len(SHOOTS)
    assert {each.labels["state"] for each in found} <= {str(state) for state in ShootState}


async def test_a_process_that_came_back_adds_nothing_to_what_was_counted(recording):
    outages = await number(recording, "Outages detected")
    assert 2.5 < outages < 4, "three, as Prometheus reckons it from a part of the time"


async def test_each_replica_has_led(recording):
    found = await answer(recording, query_of(SEED, "Who leads"))
    led = {each.labels["instance"]: max(each.values) for each in found}
    assert list(led.values()) == [1, 1, 1]


@pytest.mark.parametrize("panel", ["Protected shoots", "Controllers at 0", "Decided by people"])
async def test_what_is_told_of_all_seeds_is_the_sum_of_each(recording, panel):
    one = await number(recording, panel)
    lean = await number(recording, panel, seed=LEAN)
    assert await number(recording, panel, seed=".*") == one + lean


@pytest.mark.parametrize(
    "asked", [each for each in queries() if each.dashboard == SEED and each.instant], ids=str
)
async def test_the_seed_needs_no_series_for_each_shoot(recording, asked):
    whole = await answer(recording, asked)
    lean = await answer(recording, asked, seed=LEAN)
    assert sorted(_said(each) for each in lean) == sorted(_said(each) for each in whole)


def _said(series: Series) -> tuple[tuple[tuple[str, str], ...], float]:
    labels = {name: value for name, value in series.labels.items() if name != "seed"}
    return tuple(sorted(labels.items())), round(series.last, 0)


# One shoot.


@pytest.mark.parametrize(
    ("shoot", "state"),
    [
        (PROTECTED, ShootState.PROTECTED),
        (RECOVERS, ShootState.HEALTHY),
        (LEFT, ShootState.NOT_PROBED),
        (ASLEEP, ShootState.NOT_PROBED),
    ],
)
async def test_the_state_of_a_shoot_is_the_word_that_its_number_stands_for(recording, shoot, state):
    shown = await number(recording, "State", SHOOT, shoot=shoot)
    (panel,) = [each for each in panels(dashboard(SHOOT)) if each["title"] == "State"]
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"][str(int(shown))]["text"] == state


async def test_a_shoot_that_recovered_shows_its_way_there_and_back(recording):
    (states,) = await answer(recording, query_of(SHOOT, "State over time"), shoot=RECOVERS)
    order = list(ShootState)
    seen = [order[int(each) - 1] for each in states.values]
    first, last = (
        seen.index(ShootState.PROTECTED),
        len(seen) - seen[::-1].index(ShootState.PROTECTED),
    )
    assert ShootState.HEALTHY in seen[:first]
    assert ShootState.HEALTHY in seen[last:]
    scaling_runs = await answer(recording, query_of(SHOOT, "Scaling runs begun"), shoot=RECOVERS)
    assert {each.labels["direction"]: max(each.values) > 0 for each in scaling_runs} == {
        "down": True,
        "up": True,
    }


async def test_a_shoot_that_is_well_shows_zeros_and_no_protection(recording):
    assert await number(recording, "Controllers at 0", SHOOT, shoot=WELL) == 0
    assert await number(recording, "Leases expired", SHOOT, shoot=WELL) == 0
    assert await number(recording, "Decided by people", SHOOT, shoot=WELL) == 0
    assert await answer(recording, query_of(SHOOT, "Protected for"), shoot=WELL) == []


async def test_a_pause_is_shown_with_its_end(recording):
    (found,) = await answer(recording, query_of(SHOOT, "Overrides in force"), shoot=PAUSED)
    assert (found.labels["kind"], found.labels["namespace"]) == ("pause", PAUSED)
    assert 3400 < found.last / 1000 - recording.ended <= 3600


async def test_the_recording_has_no_lines_of_prometheus_about_what_it_could_not_take(recording):
    log = await asyncio.to_thread(recording.prometheus.child.log.read_text)
    assert "Error on ingesting" not in log
    assert "append failed" not in log
