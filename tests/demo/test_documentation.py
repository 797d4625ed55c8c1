"""docs/demo.md says what scenarios are made of."""

import re
from pathlib import Path

from app.core.config.yaml_file import keys_of
from app.simulation.scenarios import scenario
from app.simulation.scenarios.actions import ACTIONS

DOCUMENT = (Path(__file__).parents[2] / "docs/demo.md").read_text()


def table(heading):
    """The cells of the table under a row of heads, by their first one."""
    body = DOCUMENT.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip("|").split("|") for line in body.splitlines()[2:]]
    return {cells[0].strip("` "): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_the_table_of_keys_has_exactly_those_that_are_read():
    expected = set(keys_of(scenario.Scenario))
    expected |= {f"shoots[].{key}" for key in keys_of(scenario.Part)}
    expected |= {f"shoots[].zones[].{key}" for key in keys_of(scenario.Zone)}
    expected |= {f"scenes[].{key}" for key in keys_of(scenario.Scene)}
    assert set(table("key | value | default | meaning")) == expected


def test_the_table_of_actions_has_each_with_its_options_and_its_words():
    rows = table("action | options | what happens")
    named = {name: tuple(re.findall(r"`(\w+)`", options)) for name, (options, _) in rows.items()}
    assert named == {name: action.options for name, action in ACTIONS.items()}
    assert {name: words for name, (_, words) in rows.items()} == {
        name: action.about for name, action in ACTIONS.items()
    }


def test_the_story_is_told_scene_by_scene():
    assert list(table("scene | what happens | what the watchdog does")) == [
        str(number) for number, _ in enumerate(scenario.find_scenario("story", 30).scenes, start=1)
    ]


def test_the_example_is_a_scenario():
    example = DOCUMENT.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert len(scenario.parse_scenario(example, "example", 30).scenes) == 3


def test_every_built_in_scenario_is_named():
    assert all(
        f"`{name}`" in DOCUMENT or f"--scenario {name}" in DOCUMENT
        for name in scenario.built_in()
        if name != "story"
    )
