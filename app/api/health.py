"""`/livez`, `/readyz` and `/healthz`, with answers in the format of Kubernetes' own (rules 8).

Liveness covers the process's own loops only, never a shoot or the seed. Readiness means that the watches were listed
once. Later troubles show with `?verbose` but do not make the process unready, as a restart would not mend them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from app.core.clock import Clock
from app.core.errors import MAX_MESSAGE, trimmed
from app.core.ports import Watched, WatchState

if TYPE_CHECKING:
    from app.core.kube.seed import SeedCluster

log = structlog.get_logger(__name__)

PATHS: Final = ("/livez", "/readyz", "/healthz")
_FAILED: Final[dict[int | str, dict[str, Any]]] = {
    503: {
        "description": "A check failed; each check has a line.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
_VERBOSE: Final = {
    "parameters": [
        {
            "name": "verbose",
            "in": "query",
            "required": False,
            "allowEmptyValue": True,
            "description": "A line for each check, whether or not one has failed.",
            "schema": {"type": "string"},
        }
    ]
}


@dataclass(frozen=True, slots=True)
class Check:
    """One health check."""

    name: str
    """Such as `clusters-synced`."""
    trouble: Callable[[], str | None]
    """Returns one line for an operator; None if all is well."""
    advisory: bool = False
    """Whether its trouble is only shown with `?verbose` and never fails the probe."""


@dataclass(frozen=True, slots=True)
class Health:
    """The checks of liveness and of readiness."""

    live: Sequence[Check] = ()
    ready: Sequence[Check] = ()


def seed_checks(seed: "SeedCluster", clock: Clock) -> list[Check]:
    """Readiness checks of each watch of the seed: one that it was listed once, and an advisory one of its contact."""
    states = {what: partial(seed.watch_state, what) for what in Watched}
    synced = [synced_check(what, state) for what, state in states.items()]
    return synced + [contact_check(what, state, clock) for what, state in states.items()]


def synced_check(what: str, state: Callable[[], WatchState]) -> Check:
    """A check that fails until a watch was listed once."""
    return Check(f"{what}-synced", lambda: None if state().synced else "not listed yet")


def contact_check(what: str, state: Callable[[], WatchState], clock: Clock) -> Check:
    """An advisory check that warns while a watch is stale (rules 4.1, stale watches)."""

    def trouble() -> str | None:
        now, seen = clock.now(), state()
        if not seen.stale(now):
            return None
        if seen.last_contact is None:
            return "no contact yet"
        return f"no contact for {now - seen.last_contact:.0f}s"

    return Check(f"{what}-contact", trouble, advisory=True)


def listed(troubles: Sequence[str]) -> str | None:
    """Join troubles into one line; each is cut to its share of it, so that a long one does not hide the others."""
    most = MAX_MESSAGE // max(len(troubles), 1) - len("; ")
    return "; ".join(trimmed(each, most) for each in troubles) or None


def health_router(health: Health) -> APIRouter:
    """Routes for the three paths; `/healthz` is the same as `/livez`, as Deployments use it for restarts."""
    router = APIRouter(tags=["health"], default_response_class=PlainTextResponse)

    def serve(name: str, checks: Sequence[Check], about: str) -> None:
        @router.get(
            f"/{name}", name=name, description=about, responses=_FAILED, openapi_extra=_VERBOSE
        )
        async def answer(request: Request) -> PlainTextResponse:
            return report(name, checks, verbose="verbose" in request.query_params)

    serve("livez", health.live, "Whether the loops of this process run.")
    serve("readyz", health.ready, "Whether the seed has been listed once.")
    serve("healthz", health.live, "An alias of livez.")
    return router


def report(name: str, checks: Sequence[Check], *, verbose: bool) -> PlainTextResponse:
    """The answer: `ok`; or one line for each check, if `verbose` or if a check failed (503)."""
    found = [(check, _trouble(check)) for check in checks]
    failed = any(trouble is not None and not check.advisory for check, trouble in found)
    if not (failed or verbose):
        return PlainTextResponse("ok")
    lines = []
    for check, trouble in found:
        if trouble is None:
            lines.append(f"[+]{check.name} ok")
        elif check.advisory:
            lines.append(f"[!]{check.name} warning: {trouble}")
        else:
            lines.append(f"[-]{check.name} failed: {trouble}")
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return PlainTextResponse("\n".join(lines) + "\n", 503 if failed else 200)


def _trouble(check: Check) -> str | None:
    try:
        trouble = check.trouble()
    except Exception as error:
        log.exception("a health check failed unexpectedly", check=check.name, exc_info=error)
        return "the check itself failed, see the log"
    return None if trouble is None else trimmed(trouble)
