"""What the routers depend on: the context, the loops where they lead, and what a path names."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from app.api.auth.authorization import Call
from app.api.parameters import refuse_unknown
from app.api.problems import Problem, ProblemType
from app.api.views import Context, ProberView, WeedersView
from app.core.errors import trimmed
from app.core.model.callers import Caller
from app.core.model.policy import Loop
from app.core.model.weeding import ServiceKey, ServiceStatus
from app.prober.status import ShootStatus

_LISTED_WITHIN: Final = 2.0
"""Seconds that a call waits for the first list."""
_CHECK_INTERVAL: Final = 0.05


async def context(request: Request) -> Context:
    """The context that the application was made with."""
    found: Context = request.app.state.context
    return found


def check_here(found: Context, loop: Loop) -> None:
    """Returns where this loop runs, whether its instance leads or stands by.

    Raises:
        Problem: it does not run here; the problem names where to ask.
    """
    leaders, peer = found.process.leaders, found.process.peer_url
    if loop in leaders:
        return
    here = " and ".join(sorted(leaders)) or "neither loop"
    detail = f"the {loop} does not run in this process, which runs the {here}"
    if peer is not None:
        detail += f"; ask {trimmed(peer)}"
    raise Problem(ProblemType.LOOP_NOT_HERE, detail, extra={"loop": str(loop), "peer": peer})


def leads(found: Context, loop: Loop) -> bool:
    """Whether this instance leads this loop."""
    leader = found.process.leaders.get(loop)
    return leader is not None and leader.leading


def _require(found: Context, loop: Loop) -> None:
    """Returns on the leader of this loop.

    Raises:
        Problem: the loop does not run here, or this instance stands by; the problem names the leader.
    """
    check_here(found, loop)
    if leads(found, loop):
        return
    standing_by = found.process.leaders[loop]
    leader = standing_by.leader_identity
    detail = "this instance stands by; nobody is known to lead at the moment"
    if leader is not None:
        detail = f"this instance stands by; {trimmed(leader)} leads"
    raise Problem(
        ProblemType.NOT_THE_LEADER,
        detail,
        extra={"leader": {"identity": leader, "address": standing_by.address}},
        headers={"Retry-After": "5"},
    )


AnyContext = Annotated[Context, Depends(context)]


async def listed_prober(found: Context) -> ProberView:
    """The prober, once it knows all shoots: before that, one that is not known may be there.

    Raises:
        Problem: the seed has not been listed yet.
    """
    prober = found.prober
    assert prober is not None  # noqa: S101 - who asks knows that it runs here
    await until_listed(found, "Clusters", lambda: prober.shoots.listed)
    return prober


async def until_listed(found: Context, kind: str, listed: Callable[[], bool]) -> None:
    """Waits for a process that has only just started: a replica lists the seed within a second or two.

    Raises:
        Problem: not all of this kind was seen in time, so what is asked for may be there all the same.
    """
    process = found.process
    deadline = process.now() + _LISTED_WITHIN
    while not listed():
        if process.now() >= deadline:
            detail = f"the {kind} of the seed have not been listed yet; /readyz?verbose says what is missing"
            raise Problem(ProblemType.NOT_LISTED, detail, headers={"Retry-After": "2"})
        await process.sleep(_CHECK_INTERVAL)


async def any_prober(found: AnyContext) -> ProberView:
    """The prober, also where it stands by: for what every replica answers.

    Raises:
        Problem: it does not run here.
    """
    check_here(found, Loop.PROBER)
    return await listed_prober(found)


async def leading_prober(found: AnyContext) -> ProberView:
    """The prober, on its leader.

    Raises:
        Problem: it does not run here, or this instance stands by.
    """
    _require(found, Loop.PROBER)
    return await listed_prober(found)


async def leading_weeder(found: AnyContext) -> WeedersView:
    """The weeder, on its leader.

    Raises:
        Problem: it does not run here, or this instance stands by.
    """
    _require(found, Loop.WEEDER)
    assert found.weeders is not None  # noqa: S101 - the process says that it runs here
    return found.weeders


AnyProber = Annotated[ProberView, Depends(any_prober)]
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


# What all calls that write ask first.


def refuse_in_dry_run(context: Context) -> None:
    """Returns in a process that may write.

    Raises:
        Problem: it was started with `--dry-run`.
    """
    if context.process.dry_run:
        detail = "this process was started with --dry-run: it reads, judges and plans, and writes nothing"
        raise Problem(ProblemType.DRY_RUN, detail)


# Whether a caller may make a call: asked before anything else of the call is done.


def caller_of(request: Request) -> Caller:
    """Who makes this request; the authentication around the application has verified it."""
    found: Caller = request.state.caller
    return found


def allowed(call: Call) -> Any:  # noqa: ANN401 - a marker of FastAPI's, without a public type
    """A dependency for a route: goes on where the caller may make this call on the `namespace` of the path.

    And where the call has all query parameters that the request has, and takes a body if there is one.

    Put it into the route's `dependencies`: these come before all others.
    """

    async def check(request: Request, context: AnyContext) -> None:
        namespace = str(request.path_params.get("namespace", ""))
        await context.authority.check(caller_of(request), call, namespace)
        await refuse_unknown(request)

    return Depends(check)
