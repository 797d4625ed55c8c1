"""Overrides: pauses and holds that people decided on, and which of them are in force."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.workloads import Direction, ResourceRef

ALL_SHOOTS: Final = "_all"
"""The key for all shoots; no namespace can have this name."""
OVERRIDES: Final = "dependency-watchdog-overrides"
"""The ConfigMap in the watchdog's own namespace."""
DEFAULT_PAUSE: Final = 3_600.0
DEFAULT_HOLD: Final = 1_800.0
LONGEST: Final = 86_400.0
"""Maximum duration of a pause or hold in seconds."""


class Scope(StrEnum):
    """What a pause prevents."""

    ALL = "all"
    """Scaling in both directions, and weeding."""
    SCALE_DOWN = "scaleDown"


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's decision that the watchdog must not act."""

    scope: Scope
    reason: str
    author: str
    created_at: float
    until: float
    stand_in: bool = False
    """Whether it stands in for an entry that cannot be read, so that perhaps nobody asked for a pause."""


@dataclass(frozen=True, slots=True)
class Hold:
    """After a manual scaling run or a release: automatic verdicts are shown but not acted on."""

    reason: str
    author: str
    created_at: float
    until: float
    direction: Direction | None = None
    """Direction of its scaling run; None if it has none."""
    operation: str | None = None
    """The id of its scaling run."""
    force: bool = False
    """Whether the scaling run continues even if the shoot is not probed."""
    done: bool = True
    """Whether its scaling run has ended, successfully or not."""


@dataclass(frozen=True, slots=True)
class IgnoreRequest:
    """A person's request that one resource is not scaled any more, or is scaled again."""

    namespace: str
    ref: ResourceRef
    ignored: bool
    author: str
    reason: str | None = None
    """None if it is scaled again, which needs no reason."""
    force: bool = False
    """Whether to do so even if the resource is at 0 and would stay there."""
    if_match: str | None = None
    """The ETag that the caller saw, of the resource or of all resources."""
    dry_run: bool = False
    """Whether to check everything and write nothing."""


@dataclass(frozen=True, slots=True)
class OverrideEntry:
    """The content of one key of the ConfigMap; may include expired entries."""

    pause: Pause | None = None
    hold: Hold | None = None

    @property
    def empty(self) -> bool:
        """Whether there is neither a pause nor a hold."""
        return self.pause is None and self.hold is None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A key whose value cannot be read."""

    problem: str
    """What is wrong, and where in the value."""


@dataclass(frozen=True, slots=True)
class EffectiveOverrides:
    """The overrides of one shoot that are in force at one instant."""

    pause: Pause | None = None
    """The pause of this shoot."""
    global_pause: Pause | None = None
    """The pause of all shoots."""
    hold: Hold | None = None
    unreadable: str | None = None
    """Why the key of the shoot or of all shoots cannot be read; while that pauses the shoot, `pause` is the stand-
    in."""
    changes_at: float | None = None
    """When the next of these expires."""

    @property
    def covering(self) -> Pause | None:
        """The pause with the wider scope; of two equal ones, the shoot's own."""
        found = [each for each in (self.pause, self.global_pause) if each is not None]
        wide = [each for each in found if each.scope is Scope.ALL]
        return next(iter(wide or found), None)

    def pause_against(self, direction: Direction) -> Pause | None:
        """Returns the pause that forbids automatic scaling in this direction, if any."""
        covering = self.covering
        if covering is None:
            return None
        return covering if covering.scope is Scope.ALL or direction is Direction.DOWN else None


NOTHING: Final = EffectiveOverrides()
