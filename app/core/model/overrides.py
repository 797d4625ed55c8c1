"""What people decided about shoots: pauses and holds, and what of them is in force."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.workloads import Direction, ResourceRef

ALL_SHOOTS: Final = "_all"
"""The key of what holds for every shoot; no namespace can have this name."""
OVERRIDES: Final = "dependency-watchdog-overrides"
"""The ConfigMap in the watchdog's own namespace."""
DEFAULT_PAUSE: Final = 3_600.0
DEFAULT_HOLD: Final = 1_800.0
LONGEST: Final = 86_400.0
"""Seconds that a pause or a hold lasts at most."""


class Scope(StrEnum):
    """What a pause holds back."""

    ALL = "all"
    """Scaling in both directions, and weeding."""
    SCALE_DOWN = "scaleDown"


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's wish that we keep our hands off."""

    scope: Scope
    reason: str
    author: str
    created_at: float
    until: float
    stand_in: bool = False
    """Nobody may have wished it: it stands in for an entry that cannot be read."""


@dataclass(frozen=True, slots=True)
class Hold:
    """After a manual scaling run, or a release: automatic verdicts are shown, and not acted on."""

    reason: str
    author: str
    created_at: float
    until: float
    direction: Direction | None = None
    """Of its scaling run; None: it came without one."""
    operation: str | None = None
    """The id of its scaling run."""
    force: bool = False
    """The scaling run goes on although the shoot is not probed."""
    done: bool = True
    """Its scaling run has ended, this way or that."""


@dataclass(frozen=True, slots=True)
class IgnoreOrder:
    """A person's wish that nobody scales one resource any more, or that it is scaled again."""

    namespace: str
    ref: ResourceRef
    ignored: bool
    author: str
    reason: str | None = None
    """None where it is scaled again: nobody has to say why."""
    force: bool = False
    """Also where it is at 0, and would stay there."""
    if_match: str | None = None
    """The ETag that the caller saw, of the resource or of all."""


@dataclass(frozen=True, slots=True)
class OverrideEntry:
    """What the ConfigMap says under one key; entries that have ended may still be there."""

    pause: Pause | None = None
    hold: Hold | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.pause is None and self.hold is None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A key whose value cannot be read."""

    problem: str
    """What is wrong, and where in the value."""


@dataclass(frozen=True, slots=True)
class EffectiveOverrides:
    """What people decided about one shoot, as far as it is in force at one instant."""

    pause: Pause | None = None
    """The shoot's own."""
    global_pause: Pause | None = None
    """That of all shoots."""
    hold: Hold | None = None
    unreadable: str | None = None
    """Why its key, or that of all shoots, cannot be read; while that pauses the shoot, `pause` says so as well."""
    changes_at: float | None = None
    """When the next of these ends by itself."""

    @property
    def covering(self) -> Pause | None:
        """The pause that holds back most; of two alike, the shoot's own."""
        found = [each for each in (self.pause, self.global_pause) if each is not None]
        wide = [each for each in found if each.scope is Scope.ALL]
        return next(iter(wide or found), None)

    def pause_against(self, direction: Direction) -> Pause | None:
        """The pause that forbids automatic scaling this way."""
        covering = self.covering
        if covering is None:
            return None
        return covering if covering.scope is Scope.ALL or direction is Direction.DOWN else None


NOTHING: Final = EffectiveOverrides()
