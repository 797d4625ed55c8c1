"""Pauses, ScaleRequests and the holds that follow from them: what people decided, and what of it is in force; pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from app.core.model.scaling_runs import OperationPhase, RunStep, ScaleSpec
from app.core.model.workloads import Direction, ResourceRef

API_VERSION: Final = "dependency-watchdog.gardener.cloud/v1alpha1"
"""Of the custom resources."""
ALL_SHOOTS: Final = "_all"
"""Stands for all shoots where a namespace is named in notices and metrics; no namespace can have this name."""
API_PAUSE: Final = "api"
"""The name of the Pause that the API makes, one in each namespace."""
DEFAULT_PAUSE: Final = 3_600.0
DEFAULT_HOLD: Final = 1_800.0
LONGEST: Final = 86_400.0
"""Maximum duration in seconds of a hold, and of a pause that the API makes; a Pause without `until` lasts so long."""
RELEASE: Final = "release"
"""The prefix of the names of ScaleRequests that the watchdog makes by itself; a hyphen follows."""
UNKNOWN: Final = "unknown"
"""The author of an object that names none."""


class Scope(StrEnum):
    """What a pause prevents."""

    ALL = "all"
    """Scaling in both directions, and weeding."""
    SCALE_DOWN = "scaleDown"


@dataclass(frozen=True, slots=True)
class ObjectId:
    """Which object of the seed a record was decoded from."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: str = ""
    """Its resourceVersion."""


NOWHERE: Final = ObjectId()


class PauseDecision(NamedTuple):
    """The part of a Pause that people decide; compared to find out whether they have changed it."""

    uid: str
    scope: Scope
    reason: str
    author: str
    until: float
    problem: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's decision that the watchdog must not act (a Pause)."""

    scope: Scope
    reason: str
    author: str
    created_at: float
    until: float
    id: ObjectId = NOWHERE
    verified: bool = False
    """Whether the API wrote the author; otherwise somebody with kubectl did, and may have written anything."""
    problem: str | None = None
    """Why the object cannot be decoded, so that it pauses everything for 24 h; None if it can."""
    told_until: float | None = field(default=None, compare=False)
    """The end in its status, which only `kubectl get` shows."""
    deleting: bool = False
    """Whether its deletion was requested, and a finalizer still keeps it."""

    @property
    def decision(self) -> PauseDecision:
        """What people have decided; another version of the object may differ in its status alone."""
        return PauseDecision(
            self.id.uid, self.scope, self.reason, self.author, self.until, self.problem
        )

    def in_force(self, now: float) -> bool:
        """Whether it has not ended yet."""
        return now < self.until and not self.deleting


def phase_word(phase: OperationPhase) -> str:
    """Returns the phase as the status of a ScaleRequest has it."""
    return "Succeeded" if phase is OperationPhase.DONE else str(phase)


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """A person's request to scale a shoot, and what has become of it (a ScaleRequest)."""

    id: ObjectId
    spec: ScaleSpec
    created_at: float
    phase: OperationPhase = OperationPhase.PENDING
    message: str = ""
    started: float | None = None
    ended: float | None = None
    hold_until: float | None = None
    """When its hold ends; None before the scaling run has ended, and if it holds nothing any more."""
    steps: tuple[RunStep, ...] = ()
    observed_by: str | None = None
    """Identity of the leader that carries it out."""
    verified: bool = False
    """Whether the API wrote the author."""
    problem: str | None = None
    """Why the object cannot be decoded; nothing is done about it, and it holds nothing."""
    deleting: bool = False
    """Whether its deletion was requested, and a finalizer still keeps it."""

    @property
    def open(self) -> bool:
        """Whether it is still to be carried out or being carried out."""
        return self.problem is None and not self.deleting and self.phase.running

    @property
    def unended(self) -> bool:
        """Whether somebody has set its phase by hand to one that ends it, and when it ended is not written there."""
        over = not (self.phase.running or self.deleting) and self.ended is None
        return over and self.problem is None

    @property
    def release(self) -> bool:
        """Whether the watchdog itself made it, to end a protection that has lasted as long as it may."""
        return self.verified and self.id.name.startswith(f"{RELEASE}-")

    @property
    def outlives_probing(self) -> bool:
        """Whether its scaling run goes on when the shoot is not probed any more.

        A release is forced against the verdict only.
        """
        return self.spec.force and not self.release


@dataclass(frozen=True, slots=True)
class Hold:
    """Before, during and after a manual scaling run or a release: automatic verdicts are shown but not acted on."""

    reason: str
    author: str
    created_at: float
    until: float
    """When it ends; while its scaling run is under way, when it would end if that ended at once."""
    direction: Direction
    operation: str
    """The uid of its ScaleRequest, which is the id of the operation."""
    force: bool = False
    """`spec.force` of its ScaleRequest; a release has it, too, though its run ends with the probing of the shoot."""
    done: bool = True
    """Whether its scaling run has ended, successfully or not."""
    verified: bool = False
    """Whether the API wrote the author."""


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
class EffectiveOverrides:
    """The overrides of one shoot that are in force at one instant."""

    pause: Pause | None = None
    """The shoot's own pause: of several the stricter one, then the one that ends last."""
    global_pause: Pause | None = None
    """The pause of all shoots, chosen the same way."""
    hold: Hold | None = None
    """Of several the one whose scaling run is under way, then the one that ends last."""
    pauses: tuple[Pause, ...] = ()
    """All pauses in force for the shoot, those of all shoots included, by what they prevent and when they end."""

    @property
    def covering(self) -> Pause | None:
        """The pause that acts: the stricter one, then the one that ends last."""
        return next(iter(self.pauses), None)

    def pause_against(self, direction: Direction) -> Pause | None:
        """Returns the pause that forbids automatic scaling in this direction, if any."""
        covering = self.covering
        if covering is None:
            return None
        return covering if covering.scope is Scope.ALL or direction is Direction.DOWN else None


NOTHING: Final = EffectiveOverrides()


def effective(
    own: Iterable[Pause], everywhere: Iterable[Pause], requests: Iterable[ScaleRequest], now: float
) -> EffectiveOverrides:
    """Returns what is in force for a shoot.

    Args:
        own: the Pauses in its namespace.
        everywhere: the Pauses of all shoots.
        requests: the shoot's ScaleRequests.
        now: the instant.
    """
    own, everywhere = ordered(own, now), ordered(everywhere, now)
    hold = acting_hold(requests, now)
    if not own and not everywhere and hold is None:
        return NOTHING
    return EffectiveOverrides(
        next(iter(own), None), next(iter(everywhere), None), hold, ordered((*own, *everywhere), now)
    )


def ordered(pauses: Iterable[Pause], now: float) -> tuple[Pause, ...]:
    """Returns the pauses in force, the one that acts first: the stricter one, then the one that ends last."""
    found = [each for each in pauses if each.in_force(now)]
    if len(found) > 1:
        found.sort(key=lambda each: (each.scope is not Scope.ALL, -each.until, each.id.name))
    return tuple(found)


def acting_hold(requests: Iterable[ScaleRequest], now: float) -> Hold | None:
    """Returns the hold that acts: one whose scaling run is under way, else the one that ends last."""
    found = [hold for each in requests if (hold := hold_of(each, now)) is not None]
    return max(found, key=lambda each: (not each.done, each.until), default=None)


def hold_of(request: ScaleRequest, now: float) -> Hold | None:
    """Returns the hold of a ScaleRequest that is in force: until the end of its scaling run, and then for `spec.hold`.

    None if it has none any more: its time is over, or it was refused, or it is a scale-up that failed, after which
    verdicts have to act again.
    """
    until = hold_end(request)
    # If a person wrote the final phase, the end is not known until the leader has added it.
    lasts = request.open or request.unended
    if until is None or request.deleting or not (lasts or now < until):
        return None
    return Hold(
        reason=request.spec.reason,
        author=request.spec.author,
        created_at=request.created_at,
        until=until,
        direction=request.spec.direction,
        operation=request.id.uid,
        force=request.spec.force,
        done=not request.open,
        verified=request.verified,
    )


def hold_end(request: ScaleRequest) -> float | None:
    """Returns when the hold of a ScaleRequest ends; of one that is open, when it would if that ended at once."""
    if request.problem is not None or request.phase is OperationPhase.REFUSED:
        return None
    if request.hold_until is not None:
        return request.hold_until
    if request.phase is OperationPhase.FAILED and request.spec.direction is Direction.UP:
        return None
    ended = request.created_at if request.ended is None else request.ended
    return ended + request.spec.hold
