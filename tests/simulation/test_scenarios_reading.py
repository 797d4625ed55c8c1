"""Scenario files: what they say, and each mistake in them, with its path and line."""

import os
import re
from pathlib import Path

import pytest
import yaml

from app.core.errors import ConfigurationError
from app.simulation.scenarios.actions import ACTIONS
from app.simulation.scenarios.scenario import (
    DemoMode,
    Part,
    Zone,
    built_in,
    cast,
    find_scenario,
    listed,
    parse_scenario,
    spread,
)

HEAD = "name: mine\nabout: a test\n"
MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
MINUTE = "- {after: 0s, do: path-cut, for: 1m"


def parsed(scenes, *, head=HEAD, shoots=3):
    return parse_scenario(f"{head}scenes:\n{scenes}", "file.yaml", shoots)


def mistakes(content, shoots=3):
    """Its mistakes, as they are printed, without the name of the file."""
    with pytest.raises(ConfigurationError) as caught:
        parse_scenario(content, "file.yaml", shoots)
    return [line.removeprefix("file.yaml: ") for line in str(caught.value).splitlines()]


def mistakes_of(scene):
    """Those of the only scene of a scenario, which begins on line 4."""
    return mistakes(f"{HEAD}scenes:\n- {scene}\n")


def test_a_scene_says_what_happens_to_whom_from_when_on_and_for_how_long():
    scenario = parsed(
        """
- say: The first one.
  after: 5s
  do: path-cut
  with: {fraction: 0.5}
  for: 1m15s
- afterEnd: 10s
  do: api-down
  shoots: all
  for: 30s
  times: 3
  every: 45s
- {after: 0s, do: token-rotated, shoots: 2}
- {after: 1s, do: seed-down, for: 5s}
"""
    )
    first, second, third, fourth = scenario.scenes
    assert (scenario.name, scenario.about) == ("mine", "a test")
    assert (first.text, first.shoots) == ("The first one.", 1)
    assert (first.pause, first.after_end, first.lasting) == (5.0, None, 75.0)
    assert second.text == ACTIONS["api-down"].about, "an action has words of its own"
    assert second.shoots == ("all",)
    assert (second.pause, second.after, second.lasting) == (10.0, None, 30.0)
    assert (second.times, second.every, second.duration) == (3, 45.0, 120.0)
    assert (third.shoots, third.duration) == (2, 0.0)
    assert fourth.action.of_seed


def test_a_scenario_may_ask_for_endpoint_mode_and_for_a_canary():
    scenario = parsed(f"{MINUTE}}}", head=f"{HEAD}mode: endpoint\ncanary: true\n")
    assert (scenario.mode, scenario.canary) == (DemoMode.ENDPOINT, True)
    scenario = parsed(f"{MINUTE}}}")
    assert (scenario.mode, scenario.canary) == (DemoMode.LEASE, False)


def test_a_mode_that_there_is_none_and_a_canary_that_is_no_switch_are_mistakes():
    head = f"{HEAD}mode: endpoints\ncanary: 1\n"
    assert mistakes(f"{head}scenes:\n{MINUTE}}}\n") == [
        'line 3: mode: must be lease or endpoint, not the string "endpoints"',
        "line 4: canary: must be true or false, not the number 1",
    ]


def test_shoots_are_named_alone_or_in_a_list_in_which_each_counts_once():
    scenes = parsed(f"{MINUTE}, shoots: b}}\n{MINUTE}, shoots: [c, a, c]}}").scenes
    assert [scene.shoots for scene in scenes] == [("b",), ("c", "a")]


def test_keys_match_whatever_their_case_as_in_the_prober_file():
    assert parsed("- {AFTER: 0s, Do: path-cut, FOR: 1m, Shoots: b}").scenes[0].shoots == ("b",)


def test_a_scenario_brings_shoots_of_its_own_along():
    head = HEAD + "shoots:\n- name: big\n  nodes: 100\n  zones: [{name: left, share: 0.59}, "
    head += "{name: right, share: 0.41}]\n- name: small\n"
    scenario = parsed(f"{MINUTE}, shoots: big, with: {{zone: left}}}}", head=head)
    assert scenario.shoots == (
        Part("big", 100, (Zone("left", 0.59), Zone("right", 0.41))),
        Part("small", 10),
    )


@pytest.mark.parametrize(("scene", "said"), MISTAKES["scenes"].items())
def test_a_mistake_in_a_scene_is_named_with_its_path_and_line(scene, said):
    assert mistakes_of(scene) == [f"line 4: scenes[0].{said}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "(file): must be a mapping with the scenario's keys, and holds nothing"),
        ("[1]", "line 1: (file): must be a mapping with the scenario's keys, and holds a list"),
        ("name: a\nabout: b\n", "line 1: scenes: is required"),
        (
            "name: My Own\nabout: b\nscenes: [{after: 0s, do: token-rotated}]",
            'line 1: name: must be a name of lower case letters, digits and -, not the string "My Own"',
        ),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(content, said):
    found = mistakes(content)
    assert len(found) == 1
    assert found[0].startswith(said)


@pytest.mark.parametrize(("shoots", "said"), MISTAKES["shoots"].items())
def test_a_mistake_in_a_shoot_of_its_own_is_named_with_its_path_and_line(shoots, said):
    content = f"{HEAD}shoots: {shoots}\nscenes: [{{after: 0s, do: token-rotated}}]"
    assert mistakes(content) == [f"line 3: {said}"]


@pytest.mark.parametrize(
    ("shoots", "zone", "nearest"),
    [("wide", "zone-a", "north"), ("1", "north", "zone-a"), ("a", "north", "zone-a")],
)
def test_a_zone_in_which_no_node_of_the_scene_can_be_is_a_mistake(shoots, zone, nearest):
    head = f"{HEAD}shoots: [{{name: wide, zones: [{{name: north, share: 1}}]}}]\nscenes:\n"
    said = f"line 5: scenes[0].with.zone: names no zone of these shoots; the nearest is {nearest}"
    assert mistakes(f"{head}{MINUTE}, shoots: {shoots}, with: {{zone: {zone}}}}}\n") == [said]


def test_all_shoots_together_may_lose_a_zone_that_one_of_them_has():
    head = f"{HEAD}shoots: [{{name: wide, zones: [{{name: north, share: 1}}]}}]\n"
    (scene,) = parsed(f"{MINUTE}, shoots: all, with: {{zone: north}}}}\n", head=head).scenes
    assert scene.shoots == ("all",)


def test_all_mistakes_are_named_at_once_in_the_order_of_their_lines():
    found = mistakes(f"{HEAD}scenes:\n- do: nothing\n- after: soon\n  do: path-cut\n")
    assert [re.sub(r": (must|is|the).*", "", each) for each in found] == [
        "line 4: scenes[0].after",
        "line 4: scenes[0].do",
        "line 5: scenes[1].after",
        "line 5: scenes[1].for",
    ]


# The built-in ones.


def test_the_built_in_scenarios_are_listed_with_a_line_each():
    assert [each.name for each in listed()] == list(built_in())
    assert {"story", "outage", "etcd", "seed-wide", "false-alarms", "seed-network"} <= set(
        built_in()
    )
    assert all(each.about and "\n" not in each.about for each in listed())


@pytest.mark.parametrize("name", built_in())
@pytest.mark.parametrize("shoots", [1, 30])
def test_a_built_in_scenario_reads_under_its_own_name_with_any_number_of_shoots(name, shoots):
    assert find_scenario(name, shoots).name == name


def test_the_story_has_all_that_it_promises():
    scenes = find_scenario("story", 30).scenes
    assert [(scene.do, scene.shoots) for scene in scenes] == [
        ("path-cut", 1),
        ("api-down", 1),
        ("etcd-outage", 1),
        ("token-rotated", 3),
        ("kubeconfig-refused", 1),
        ("path-cut", ("zonal-61",)),
        ("path-cut", ("zonal-59",)),
        ("storage-away", 1),
        ("hibernation", 1),
        ("manual-zero", 1),
        ("path-cut", 1),
        ("path-cut", ("all",)),
    ]
    assert scenes[10].times == 3, "the network flaps"
    zones = {own.name: spread(own.zones, own.nodes) for own in find_scenario("story", 30).shoots}
    assert zones["zonal-59"].count("zone-a") == 59
    assert zones["zonal-61"].count("zone-a") == 61


def test_a_file_is_a_scenario_too(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}scenes:\n{MINUTE}}}\n")
    assert find_scenario(str(path), 3).name == "mine"
    path.write_text("name: mine")
    with pytest.raises(ConfigurationError, match=re.escape(f"{path}: line 1: scenes: is required")):
        find_scenario(str(path), 3)


def test_what_is_neither_a_file_nor_built_in_is_refused_with_the_nearest_that_is():
    with pytest.raises(ConfigurationError) as caught:
        find_scenario("storry", 3)
    assert str(caught.value) == (
        'dwd demo: --scenario: is neither a file nor a built-in scenario: "storry"; the nearest is story, '
        "all are etcd, false-alarms, outage, seed-network, seed-wide, story"
    )


def test_a_name_that_no_file_can_have_is_refused_and_is_no_traceback():
    with pytest.raises(ConfigurationError, match="cannot be read: File name too long"):
        find_scenario("a" * 300, 3)


def test_a_pipe_is_refused_as_nobody_knows_whether_anything_ever_comes(tmp_path):
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="is not a regular file"):
        find_scenario(str(path), 3)


# Who takes part.


def test_the_shoots_have_the_letters_for_names_then_numbers_and_none_twice():
    parts = cast(28, 4, [Part("b", 7)])
    assert [part.name for part in parts][:3] == ["a", "c", "d"]
    assert [part.name for part in parts][24:] == ["z", "s26", "s27", "b"]
    assert len(parts) == 28
    assert [part.nodes for part in parts][-2:] == [4, 7]


def test_there_is_a_shoot_beside_the_scenarios_own_however_few_are_wanted():
    own = [Part("x", 2), Part("y", 2)]
    assert [part.name for part in cast(1, 4, own)] == ["a", "x", "y"]


@pytest.mark.parametrize("nodes", [2, 3, 10, 59, 100, 4999])
def test_every_node_is_in_a_zone_and_each_zone_has_its_share_to_within_one_node(nodes):
    zones = (Zone("a", 0.59), Zone("b", 0.3), Zone("c", 0.11))
    found = spread(zones, nodes)
    assert len(found) == nodes
    assert all(abs(found.count(zone.name) - zone.share * nodes) <= 1 for zone in zones)


def test_every_action_says_what_it_is_and_those_of_the_seed_touch_no_shoot():
    assert all(action.about.endswith(".") for action in ACTIONS.values())
    seed = {name for name, action in ACTIONS.items() if action.of_seed}
    assert seed == {"seed-down", "seed-slow", "seed-network-cut"}
