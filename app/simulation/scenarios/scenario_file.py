"""Finds a scenario by name or path and parses it; reports all mistakes at once, with path, line and nearest word."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, assert_never

import yaml

from app.core.config.yaml_file import (
    FileLocation,
    NodeKind,
    compose,
    describe,
    kind,
    line_of,
    nearest,
    read_text,
)
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.durations import format_duration
from app.simulation.scenarios.actions import ACTIONS, Options, ScenarioAction, label, one_of, text
from app.simulation.scenarios.casting import cast, spread, zones_of
from app.simulation.scenarios.model import (
    ActionScope,
    Begin,
    Chosen,
    DemoMode,
    Everyone,
    Named,
    Nobody,
    OwnShoot,
    Scenario,
    Scene,
    Since,
    Some,
    Timing,
    Zone,
)
from app.simulation.scenarios.reading import Findings, Section, boolean, duration, fraction, whole

SCENARIO_KEYS: Final = ("name", "about", "mode", "canary", "shoots", "scenes")
SHOOT_KEYS: Final = ("name", "nodes", "zones")
ZONE_KEYS: Final = ("name", "share")
SCENE_KEYS: Final = ("do", "with", "shoots", "after", "afterEnd", "for", "times", "every", "say")

_LEAST_NODES: Final = 2
_MOST_NODES: Final = 5000
_MOST_TIMES: Final = 100
_ALL: Final = "all"


def read_scenario(path: Path, shoots: int) -> Scenario:
    """Reads the scenario file at `path`, for a demo with the given number of shoots.

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    if _may_block(path):
        raise ConfigurationError(str(path), [Mistake(None, "", "is not a regular file")])
    return parse_scenario(read_text(path), str(path), shoots)


def _may_block(path: Path) -> bool:
    # Reading a pipe or device may block, and Ctrl-C would have no effect meanwhile.
    try:
        return path.exists() and not (path.is_file() or path.is_dir())
    except OSError:
        return False  # it cannot be read either, which says why


def parse_scenario(content: str, source: str, shoots: int) -> Scenario:
    """Parses the text of a scenario; errors refer to it as `source`.

    Raises:
        ConfigurationError: anything in it is wrong; it has all mistakes.
    """
    findings = Findings(source)
    root = compose(content, source)
    if root is None or kind(root) is not NodeKind.MAPPING:
        found = "nothing" if root is None else describe(root)
        place = FileLocation("", None if root is None else line_of(root))
        findings.refuse(place, f"must be a mapping with the scenario's keys, and holds {found}")
    top = Section(root, FileLocation("", line_of(root)), SCENARIO_KEYS, findings)
    own = tuple(_own_shoots(top, findings))
    names = [part.name for part in cast(shoots, _LEAST_NODES, own)]
    scenes = tuple(_scenes(top, findings, _KnownNames(names, own)))
    name, about = top.required("name", label), top.required("about", text)
    mode = DemoMode(top.value("mode", one_of(DemoMode, " or ".join(DemoMode)), DemoMode.LEASE))
    canary = top.value("canary", boolean, default=False)
    findings.check()
    return Scenario(name or "", about or "", scenes, own, mode, canary)


# Its own shoots.


def _own_shoots(top: Section, findings: Findings) -> Iterator[OwnShoot]:
    if top.node("shoots") is None:
        return
    seen: set[str] = set()
    for section in top.sections("shoots", SHOOT_KEYS):
        name = section.required("name", label) or ""
        if name and name in seen:
            findings.mistake(section.place("name"), f"there is a shoot {name} already")
        if name == _ALL:
            findings.mistake(section.place("name"), f"{_ALL} stands for all shoots")
        seen.add(name)
        nodes = section.value("nodes", _nodes, 10)
        yield OwnShoot(name, nodes, tuple(_zones(section, nodes, findings)))


def _nodes(node: yaml.Node) -> int:
    count = whole(_LEAST_NODES)(node)
    if count > _MOST_NODES:
        raise ValueError(f"must be at most {_MOST_NODES}, not {count}")
    return count


def _zones(section: Section, nodes: int, findings: Findings) -> list[Zone]:
    if section.node("zones") is None:
        return []
    zones = [
        Zone(each.required("name", label) or "", each.required("share", fraction(zero=False)) or 0)
        for each in section.sections("zones", ZONE_KEYS)
    ]
    if zones and all(zone.share for zone in zones):
        _check_shares(section.place("zones"), zones, nodes, findings)
    return zones


def _check_shares(
    place: FileLocation, zones: Sequence[Zone], nodes: int, findings: Findings
) -> None:
    names = [zone.name for zone in zones]
    whole_share = sum(zone.share for zone in zones)
    twice = [name for name, count in Counter(names).items() if count > 1]
    inhabited = set(spread(zones, nodes))
    if twice:
        findings.mistake(place, f"there is a zone {twice[0]} twice")
    elif not math.isclose(whole_share, 1.0, abs_tol=1e-6):
        findings.mistake(place, f"the shares must add up to 1, not {whole_share:g}")
    elif not inhabited.issuperset(names):
        empty = next(name for name in names if name not in inhabited)
        findings.mistake(place, f"the share of {empty} is less than one of {nodes} nodes")


# Scenes.


class _KnownNames:
    """The names that a scene may use."""

    def __init__(self, names: Sequence[str], own: Sequence[OwnShoot]) -> None:
        self.names = names
        self._own = {each.name: each for each in own}

    def zones(self, chosen: Chosen) -> frozenset[str]:
        """Returns the zones that nodes of the chosen shoots can be in."""
        match chosen:
            case Named(names):
                places = [zones_of(self._own.get(name)) for name in names]
            case Some():
                places = [zones_of(None)]
            case Everyone() | Nobody():
                places = [zones_of(each) for each in (None, *self._own.values())]
            case _:
                assert_never(chosen)
        return frozenset[str]().union(*places)


def _scenes(top: Section, findings: Findings, known: _KnownNames) -> Iterator[Scene]:
    for section in top.sections("scenes", SCENE_KEYS):
        name = section.required("do", one_of(ACTIONS, "an action"))
        if name is not None:
            yield _scene(section, name, findings, known)


def _scene(section: Section, name: str, findings: Findings, known: _KnownNames) -> Scene:
    action = ACTIONS[name]
    chosen = _chosen(section, action, findings, known)
    return Scene(
        name,
        section.value("say", text, action.about),
        chosen,
        _timing(section, name, action, findings),
        _begin(section, name, findings, known.zones(chosen)),
        action.touches,
    )


def _begin(section: Section, name: str, findings: Findings, zones: frozenset[str]) -> Begin:
    options, given = ACTIONS[name].options, section.node("with")
    if given is not None and not options:
        findings.mistake(section.place("with"), f"{name} has no options")
        given = None
    return ACTIONS[name].read(
        Options(None if given is None else section.section("with", options), zones, findings)
    )


def _chosen(
    section: Section, action: ScenarioAction, findings: Findings, known: _KnownNames
) -> Chosen:
    if action.scope is ActionScope.SEED:
        if section.node("shoots") is not None:
            findings.mistake(section.place("shoots"), "it happens to the seed, not to shoots")
        return Nobody()

    def read(node: yaml.Node) -> Chosen:
        return _choice(node, known.names)

    one: Chosen = Some(1)
    return section.value("shoots", read, one)


def _choice(node: yaml.Node, names: Sequence[str]) -> Chosen:
    """Reads a number, `all`, a name or a list of names."""
    match kind(node):
        case NodeKind.NUMBER:
            return Some(whole(1)(node))
        case NodeKind.STRING if node.value == _ALL:
            return Everyone()
        case NodeKind.STRING:
            return Named((_known(node, names),))
        case NodeKind.LIST if node.value:
            return Named(tuple(dict.fromkeys(_known(each, names) for each in node.value)))
        case _:
            raise ValueError(f"must be a number, all, or names of shoots, not {describe(node)}")


def _known(node: yaml.Node, names: Sequence[str]) -> str:
    name = label(node)
    if name not in names:
        nearby = nearest(name, names)
        raise ValueError(f"there is no shoot {name} among {len(names)}; the nearest is {nearby}")
    return name


# When.


def _timing(section: Section, name: str, action: ScenarioAction, findings: Findings) -> Timing:
    since, pause = _pause(section, findings)
    lasting = 0.0
    if action.lasts:
        lasting = section.required("for", duration(zero=False)) or 0.0
    else:
        for key in ("for", "times", "every"):
            if section.node(key) is not None:
                findings.mistake(section.place(key), f"{name} happens at once and has no end")
    times = section.value("times", _times, 1)
    every = section.value("every", duration(zero=False), 0.0)
    timing = Timing(since, pause, lasting, times, every)
    if action.lasts:
        _check_turns(section, findings, timing)
    return timing


def _pause(section: Section, findings: Findings) -> tuple[Since, float]:
    given = [key for key in ("after", "afterEnd") if section.node(key) is not None]
    if not given:
        findings.mistake(section.place("after"), "is required, or afterEnd")
        return Since.BEGIN, 0.0
    for key in given[1:]:
        findings.mistake(section.place(key), f"may not be given beside {given[0]}")
    since = Since.BEGIN if given[0] == "after" else Since.END
    return since, section.value(given[0], duration(zero=True), 0.0)


def _times(node: yaml.Node) -> int:
    count = whole(2)(node)
    if count > _MOST_TIMES:
        raise ValueError(f"must be at most {_MOST_TIMES}, not {count}")
    return count


def _check_turns(section: Section, findings: Findings, timing: Timing) -> None:
    """Turns need room for themselves."""
    several, every = section.node("times") is not None, section.node("every") is not None
    if several and not every:
        findings.mistake(section.place("every"), "is required beside times")
    elif every and not several:
        findings.mistake(section.place("every"), "has a meaning only beside times")
    elif several and timing.every <= timing.lasting:
        least = format_duration(timing.lasting)
        message = f"must be longer than for ({least}), not {format_duration(timing.every)}"
        findings.mistake(section.place("every"), message)


# The built-in scenarios.


_FOLDER: Final = files("app.simulation.scenarios") / "builtin"
_ENDING: Final = ".yaml"
# A number of shoots that suffices to parse a built-in scenario, which names only shoots of its own.
_ANY: Final = 2


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of the list of scenarios."""

    name: str
    about: str


def built_in() -> tuple[str, ...]:
    """Returns the names of the built-in scenarios."""
    found = (each.name for each in _FOLDER.iterdir() if each.name.endswith(_ENDING))
    return tuple(sorted(name.removesuffix(_ENDING) for name in found))


def listed() -> tuple[Listed, ...]:
    """Returns all built-in scenarios with their descriptions."""
    return tuple(Listed(name, _load(name, _ANY).about) for name in built_in())


def find_scenario(wanted: str, shoots: int) -> Scenario:
    """Returns a scenario by its name or file, for a demo with the given number of shoots.

    Raises:
        ConfigurationError: there is none, or anything in it is wrong.
    """
    if wanted in built_in():
        return _load(wanted, shoots)
    path = Path(wanted)
    if not path.suffix and not _is_there(path):
        known = built_in()
        message = (
            f'is neither a file nor a built-in scenario: "{trimmed(wanted, 60)}"; '
            f"the nearest is {nearest(wanted, known)}, all are {', '.join(known)}"
        )
        raise ConfigurationError("dwd demo", [Mistake(None, "--scenario", message)])
    return read_scenario(path, shoots)


def _is_there(path: Path) -> bool:
    """What cannot even be looked for is there as far as it goes: reading it says why."""
    try:
        return path.exists()
    except OSError:  # such as a name that is too long, or a directory without permission
        return True


def _load(name: str, shoots: int) -> Scenario:
    source = name + _ENDING
    return parse_scenario((_FOLDER / source).read_text(encoding="utf-8"), source, shoots)
