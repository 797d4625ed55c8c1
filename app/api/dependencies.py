"""What the routers are given: the loops as they see them, the process, and who may answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from app.api.problems import Problem, ProblemType
from app.core.errors import trimmed
from app.core.model.loops import Loop
from app.core.model.policy import ConfigWarning, ProberPolicy
from app.core.model.weeding import ServiceKey, ServiceStatus
from app.core.ports import Permission
from app.core.records.history import Entry
from app.prober.status import ShootStatus


class ShootsView(Protocol):
    """The shoots of the seed."""

    def statuses(self) -> Sequence[ShootStatus]:
        """Every shoot, probed or not, in no order."""
        ...

    def status(self, namespace: str) -> ShootStatus | None:
        """One shoot; None where the seed has none of this name."""
        ...

    def history(self, namespace: str) -> Sequence[Entry]:
        """What happened to a shoot, newest first."""
        ...


class WeedersView(Protocol):
    """The services that the weeder follows."""

    def statuses(self) -> Sequence[ServiceStatus]:
        """Those that have recoveries, running or past, in no order."""
        ...

    def status(self, key: ServiceKey) -> ServiceStatus | None:
        """One service; None where nothing is known of it."""
        ...


class LeaderView(Protocol):
    """Who leads a loop."""

    @property
    def leading(self) -> bool:
        """Whether this instance does."""
        ...

    @property
    def leader_identity(self) -> str | None:
        """Who does; None where nobody is known to."""
        ...


class ProcessView(Protocol):
    """This process, and what is wrong with it."""

    @property
    def version(self) -> str:
        """Of the program."""
        ...

    @property
    def started_at(self) -> float:
        """When the process started."""
        ...

    @property
    def dry_run(self) -> bool:
        """Whether nothing is written."""
        ...

    @property
    def leaders(self) -> Mapping[Loop, LeaderView]:
        """Who leads each loop that runs here."""
        ...

    def features_off(self) -> Mapping[str, str]:
        """Each feature that is off, and why."""
        ...

    def missing_permissions(self) -> Sequence[Permission]:
        """Rights that the configuration needs and the process lacks."""
        ...

    def config_warnings(self) -> Sequence[ConfigWarning]:
        """What is accepted in flags and file, and deserves a look."""
        ...

    def found_unconfigured(self) -> Sequence[str]:
        """Objects that carry the meltdown key and are not configured."""
        ...

    def selectors_without_pods(self) -> Sequence[str]:
        """Selectors of the weeder that have matched no pod for an hour, in no order."""
        ...


@dataclass(frozen=True, slots=True)
class ProberView:
    """The prober."""

    shoots: ShootsView
    policy: ProberPolicy


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to every route; what belongs to a loop that does not run here is None."""

    process: ProcessView
    prober: ProberView | None = None
    weeders: WeedersView | None = None


async def context(request: Request) -> Context:
    """The context that the application was made with."""
    found: Context = request.app.state.context
    return found


def _require(found: Context, loop: Loop) -> None:
    """Returns on the leader of this loop.

    Raises:
        Problem: the loop does not run here, or this instance stands by; the problem names the leader.
    """
    leaders = found.process.leaders
    if loop not in leaders:
        here = " and ".join(sorted(leaders)) or "neither loop"
        detail = f"the {loop} does not run in this process, which runs the {here}"
        raise Problem(ProblemType.LOOP_NOT_HERE, detail, extra={"loop": str(loop)})
    if leaders[loop].leading:
        return
    leader = leaders[loop].leader_identity
    detail = "this instance stands by; nobody is known to lead at the moment"
    if leader is not None:
        detail = f"this instance stands by; {trimmed(leader)} leads"
    raise Problem(
        ProblemType.NOT_THE_LEADER,
        detail,
        extra={"leader": {"identity": leader, "address": None}},
        headers={"Retry-After": "5"},
    )


AnyContext = Annotated[Context, Depends(context)]


async def leading_prober(found: AnyContext) -> ProberView:
    """The prober, on its leader.

    Raises:
        Problem: it does not run here, or this instance stands by.
    """
    _require(found, Loop.PROBER)
    assert found.prober is not None  # noqa: S101 - the process says that it runs here
    return found.prober


async def leading_weeder(found: AnyContext) -> WeedersView:
    """The weeder, on its leader.

    Raises:
        Problem: it does not run here, or this instance stands by.
    """
    _require(found, Loop.WEEDER)
    assert found.weeders is not None  # noqa: S101 - the process says that it runs here
    return found.weeders


LeadingProber = Annotated[ProberView, Depends(leading_prober)]
LeadingWeeder = Annotated[WeedersView, Depends(leading_weeder)]


def known_shoot(found: ProberView, namespace: str) -> ShootStatus:
    """The shoot of this namespace.

    Raises:
        Problem: the seed has none.
    """
    status = found.shoots.status(namespace)
    if status is None:
        detail = f"the seed has no Cluster {trimmed(namespace, 100)}"
        raise Problem(ProblemType.NOT_FOUND, detail)
    return status


def known_service(found: WeedersView, key: ServiceKey) -> ServiceStatus:
    """This service of a control plane.

    Raises:
        Problem: nothing is known of it.
    """
    status = found.status(key)
    if status is None:
        detail = f"nothing is known of {trimmed(str(key), 200)}: it is not configured, or has no EndpointSlices"
        raise Problem(ProblemType.NOT_FOUND, detail)
    return status
