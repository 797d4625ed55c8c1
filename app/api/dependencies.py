"""What the routers are given: the prober as they see it, the process, and who may answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from app.api.problems import Problem, ProblemType
from app.core.errors import trimmed
from app.core.model.policy import ConfigWarning, ProberPolicy
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
    def leading(self) -> bool:
        """Whether this instance leads the prober's loop."""
        ...

    @property
    def leader_identity(self) -> str | None:
        """Who leads it; None where nobody is known to."""
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


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to every route."""

    shoots: ShootsView
    process: ProcessView
    policy: ProberPolicy


async def context(request: Request) -> Context:
    """The context that the application was made with."""
    found: Context = request.app.state.context
    return found


async def leading(found: Annotated[Context, Depends(context)]) -> Context:
    """The context, on the leader.

    Raises:
        Problem: this instance stands by; the problem names the leader.
    """
    if found.process.leading:
        return found
    leader = found.process.leader_identity
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
LeaderContext = Annotated[Context, Depends(leading)]


def known_shoot(found: Context, namespace: str) -> ShootStatus:
    """The shoot of this namespace.

    Raises:
        Problem: the seed has none.
    """
    status = found.shoots.status(namespace)
    if status is None:
        detail = f"the seed has no Cluster {trimmed(namespace, 100)}"
        raise Problem(ProblemType.NOT_FOUND, detail)
    return status
