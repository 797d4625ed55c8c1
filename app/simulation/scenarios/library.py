"""The built-in scenarios."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from app.core.config.scalars import nearest
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.simulation.scenarios.model import Scenario
from app.simulation.scenarios.scenario_file import parse_scenario, read_scenario

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
