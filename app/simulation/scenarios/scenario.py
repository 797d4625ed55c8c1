"""Scenarios: the shoots of a demo, and a sequence of scenes, each of which applies an action to shoots for some time.

`find_scenario` finds one by name or path and loads it; it reports all mistakes at once, with path, line and nearest
word. The keys, with types, limits and defaults, are those of the records below, which are loaded as the prober file
is. What depends on the shoots that there are is asked of the plain values, valid or not.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field, Strict, ValidationInfo

from app.core.config.values import nearest
from app.core.config.yaml_file import (
    Path_,
    Values,
    YamlFile,
    compose_mapping,
    mappings,
    read_text,
    refused,
)
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.instants import format_duration
from app.core.model.keys import (
    KEYS,
    Complete,
    Duration,
    DurationOrZero,
    PositiveShare,
    Switch,
    Text,
    whole,
)
from app.simulation.builders import ZONES, World
from app.simulation.scenarios.actions import ACTIONS, Label, Options, ScenarioAction, one_of

LEAST_NODES: Final = 2
MOST_NODES: Final = 5000
ALL: Final = "all"
"""Stands for all shoots."""


@dataclass(frozen=True, slots=True)
class Zone:
    """The share of nodes in one zone; those of a shoot add up to 1."""

    __pydantic_config__: ClassVar = KEYS

    name: Label
    share: PositiveShare


def spread(zones: Sequence[Zone], nodes: int) -> tuple[str, ...]:
    """Returns the zone of each node, so that each zone has its share, rounded to whole nodes."""
    found: list[str] = []
    reach = 0.0
    for zone in zones:
        reach += zone.share
        found += [zone.name] * (round(reach * nodes) - len(found))
    return tuple(found)


def _not_all(name: str) -> str:
    if name == ALL:
        raise Complete(f"{ALL} stands for all shoots")
    return name


def _fit_shares(zones: tuple[Zone, ...], info: ValidationInfo) -> tuple[Zone, ...]:
    nodes, names = info.data.get("nodes", MOST_NODES), [zone.name for zone in zones]
    share = sum(zone.share for zone in zones)
    inhabited = set(spread(zones, nodes))
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise Complete(f"there is a zone {twice[0]} twice")
    if not math.isclose(share, 1.0, abs_tol=1e-6):
        raise Complete(f"the shares must add up to 1, not {share:g}")
    if empty := [name for name in names if name not in inhabited]:
        raise Complete(f"the share of {empty[0]} is less than one of {nodes} nodes")
    return zones


PREFIX: Final = "shoot--demo--"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Part:
    """A shoot that takes part; a scenario brings some along for the scenes that name them."""

    __pydantic_config__: ClassVar = KEYS

    name: Annotated[Label, AfterValidator(_not_all)]
    """The short name."""
    nodes: Annotated[int, Strict(), whole(LEAST_NODES, MOST_NODES)] = 10
    zones: Annotated[tuple[Zone, ...], Field(min_length=1), AfterValidator(_fit_shares)] = ()
    """The distribution over zones; empty for the usual one."""

    @property
    def namespace(self) -> str:
        """Its control-plane namespace."""
        return PREFIX + self.name


class DemoMode(StrEnum):
    """The mode of the demo's prober."""

    LEASE = "lease"
    ENDPOINT = "endpoint"


# The shoots of a simulated seed, and the zones of their nodes.


def short(namespace: str) -> str:
    """Returns the short name of a shoot."""
    return namespace.removeprefix(PREFIX)


def cast(count: int, nodes: int, own: Sequence[Part] = ()) -> tuple[Part, ...]:
    """Shoots a to z, s26, s27 and so on with `nodes` nodes each, then the scenario's own.

    Args:
        count: how many there are in all; with fewer than one beside the scenario's own, one is added.
        nodes: of each that is not the scenario's own.
        own: those that the scenario brings along.
    """
    taken = {each.name for each in own}
    numbers = range(len(_LETTERS), count + len(own) + 1)  # after a to z
    free = (name for name in (*_LETTERS, *(f"s{each}" for each in numbers)) if name not in taken)
    ordinary = [Part(next(free), nodes) for _ in range(max(count - len(own), 1))]
    return (*ordinary, *own)


def populate(world: World, parts: Sequence[Part], *, health_timeout: float) -> None:
    """Adds the shoots to a world, each with the pods of its control plane.

    Args:
        world: a seed without them.
        parts: the shoots.
        health_timeout: how long machine-controller-manager puts up with a node, seconds.
    """
    for part in parts:
        world.add_shoot(
            part.namespace,
            nodes=part.nodes,
            health_timeout=health_timeout,
            zones=spread(part.zones, part.nodes) or ZONES,
        )
        world.add_control_plane(part.namespace)


def zones_of(*shoots: Part | None) -> frozenset[str]:
    """Returns the zones of the nodes of shoots: of those that the scenario defines, and of any other (None)."""
    return frozenset[str]().union(
        *({zone.name for zone in each.zones} if each and each.zones else ZONES for each in shoots)
    )


# Scenario files.


_MOST_TIMES: Final = 100

Line = Annotated[Text, AfterValidator(lambda text: " ".join(text.split()))]


def _fit_action(value: object, info: ValidationInfo) -> object:
    """Refuses what only an action that lasts can have."""
    name = info.data.get("do")
    if name is not None and not ACTIONS[name].lasts and value is not None:
        raise Complete(f"{name} happens at once and has no end")
    return value


def _fit_turns(every: float | None, info: ValidationInfo) -> float | None:
    """Turns need room for themselves."""
    times, lasting = info.data.get("times"), info.data.get("lasting")
    if times not in {None, 1} and every is None:
        raise Complete("is required beside times")
    if every is not None and times == 1:
        raise Complete("has a meaning only beside times")
    if every is not None and lasting and every <= lasting:
        raise Complete(
            f"must be longer than for ({format_duration(lasting)}), not {format_duration(every)}"
        )
    return every


def _fit_pause(after: float | None, info: ValidationInfo) -> float | None:
    other = info.data.get("after_end")
    if after is not None and other is not None:
        raise Complete("may not be given beside afterEnd")
    if after is None and other is None and "after_end" in info.data:
        raise Complete("is required, or afterEnd")
    return after


def _choice(value: object) -> int | tuple[str, ...]:
    """Reads a number, `all`, a name or a list of names."""
    match value:
        case bool():
            pass
        case int() if value >= 1:
            return value
        case int():
            raise ValueError("must be 1 or more")
        case str():
            return (value,)
        case list() if value and all(isinstance(each, str) for each in value):
            return tuple(dict.fromkeys(value))
        case _:
            pass
    raise ValueError("must be a number, all, or names of shoots")


_ALWAYS: Any = Field(validate_default=True)


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene: an action, its target and its timing, in seconds; validators look at the keys above theirs."""

    __pydantic_config__: ClassVar = KEYS

    do: Annotated[str, one_of("an action", ACTIONS)]
    """The name of the action."""
    options: Annotated[Options, Field(alias="with")] = field(default_factory=Options)
    shoots: Annotated[Any, AfterValidator(_choice)] = 1
    """Whom it happens to: so many shoots, the next in turn that are in no other scene, at least one; or those of these
    names, or of `ALL`. What happens to the seed has none."""
    after_end: DurationOrZero | None = None
    """The pause since the end of all previous scenes, in place of `after`."""
    after: Annotated[DurationOrZero | None, _ALWAYS, AfterValidator(_fit_pause)] = None
    """The pause since the begin of the previous scene, or of the scenario."""
    lasting: Annotated[Duration, Field(alias="for"), AfterValidator(_fit_action)] = 0.0
    """The duration of the effect; 0 for an instantaneous action."""
    times: Annotated[int, Strict(), whole(2, _MOST_TIMES), AfterValidator(_fit_action)] = 1
    every: Annotated[
        Duration | None, _ALWAYS, AfterValidator(_fit_action), AfterValidator(_fit_turns)
    ] = None
    """The period from one repetition to the next."""
    say: Line | None = None

    @property
    def action(self) -> ScenarioAction:
        """What happens in it."""
        return ACTIONS[self.do]

    @property
    def text(self) -> str:
        """What is said of it: its own words, or those of its action."""
        return self.say or self.action.about

    @property
    def pause(self) -> float:
        """The pause before it, the only duration that the demo's speed shortens."""
        return (self.after_end or 0.0) if self.after is None else self.after

    def turn(self, number: int) -> float:
        """Returns when a repetition begins, from 0 on, in seconds since the begin of the scene."""
        return number * (self.every or 0.0)

    @property
    def duration(self) -> float:
        """The total duration of the scene."""
        return self.turn(self.times - 1) + self.lasting


@dataclass(frozen=True, slots=True)
class Scenario:
    """A complete scenario."""

    __pydantic_config__: ClassVar = KEYS

    name: Label
    about: Line
    scenes: Annotated[tuple[Scene, ...], Field(min_length=1)]
    mode: DemoMode = DemoMode.LEASE
    canary: Switch = False
    """Whether a host outside the seed is probed, whose failure closes a gate."""
    shoots: Annotated[tuple[Part, ...], Field(min_length=1)] = ()
    """Its own ones, which scenes name."""


def read_scenario(path: Path, shoots: int) -> Scenario:
    """Reads the scenario file at `path`, for a demo with the given number of shoots.

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    if _may_block(path):
        raise refused(str(path), "is not a regular file")
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
    root = compose_mapping(content, source, "scenario")
    file = YamlFile(root, Scenario, source, strict=True)
    own = {}
    for index, shoot in mappings(file.values.get("shoots")):
        name = shoot.get("name")
        if name in own:
            file.mistake(("shoots", index, "name"), f"there is a shoot {name} already")
        if isinstance(name, str):
            zones = [Zone(str(each.get("name")), 0) for _, each in mappings(shoot.get("zones"))]
            own[name] = Part(name, LEAST_NODES, tuple(zones))
    names = [part.name for part in cast(shoots, LEAST_NODES, [*own.values()])]
    for index, scene in mappings(file.values.get("scenes")):
        _check_scene(file, ("scenes", index), scene, names, own)
    return file.load()


def _check_scene(
    file: YamlFile[Scenario],
    path: Path_,
    scene: Values,
    names: Sequence[str],
    own: dict[str, Part],
) -> None:
    """Checks whom a scene names, and that its options are some of its action's."""
    action, name = ACTIONS.get(str(scene.get("do"))), scene.get("do")
    given = scene.get("with")
    options = given if isinstance(given, dict) else {}
    shoots = scene.get("shoots", 1)
    given_shoots = shoots if isinstance(shoots, list) else [shoots]
    named = [each for each in given_shoots if isinstance(each, str) and shoots != ALL]
    for each in named:
        if each not in names:
            nearby = nearest(each, names)
            message = f"there is no shoot {each} among {len(names)}; the nearest is {nearby}"
            file.mistake((*path, "shoots"), message)
    if action is None:
        return
    if action.lasts and "for" not in scene:
        file.mistake((*path, "for"), "is required")
    if action.of_seed and "shoots" in scene:
        file.mistake((*path, "shoots"), "it happens to the seed, not to shoots")
    for key in options:
        if key not in action.options:
            known = f"; the nearest is {nearest(key, action.options)}" if action.options else ""
            file.mistake((*path, "with", key), f"is no option of {name}{known}")
    if {"fraction", "zone"} <= options.keys():
        file.mistake((*path, "with", "zone"), "may not be given beside fraction")
    ones = [own.get(each) for each in named] or [None]
    zones = zones_of(None, *own.values()) if shoots == ALL else zones_of(*ones)
    zone = options.get("zone")
    if isinstance(zone, str) and zone not in zones:
        message = f"names no zone of these shoots; the nearest is {nearest(zone, sorted(zones))}"
        file.mistake((*path, "with", "zone"), message)


# The built-in scenarios.


_FOLDER: Final = files("app.simulation.scenarios") / "builtin"
_ENDING: Final = ".yaml"
# A number of shoots that suffices to parse a built-in scenario, which names only shoots of its own.
_ANY: Final = 2


def built_in() -> tuple[str, ...]:
    """Returns the names of the built-in scenarios."""
    found = (each.name for each in _FOLDER.iterdir() if each.name.endswith(_ENDING))
    return tuple(sorted(name.removesuffix(_ENDING) for name in found))


def listed() -> tuple[Scenario, ...]:
    """Returns all built-in scenarios."""
    return tuple(_load(name, _ANY) for name in built_in())


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
    """Returns whether the file exists; True also if that cannot be found out, as reading it then says why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:  # such as a name that is too long, or a directory without permission
        return True
    return True


def _load(name: str, shoots: int) -> Scenario:
    source = name + _ENDING
    return parse_scenario((_FOLDER / source).read_text(encoding="utf-8"), source, shoots)
