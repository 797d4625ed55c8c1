"""How much each caller may ask for (threat T15): so many requests a second, so many at the same time.

What is refused here has cost next to nothing; what is not waits for its turn (`app.api.turns`).
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.health import PATHS as HEALTH
from app.api.problems import Problem, ProblemType, wait
from app.core.errors import trimmed
from app.core.model.callers import Caller
from app.core.limits import Bucket
from app.core.web.peers import peer_of

STREAMS: Final = frozenset({"/api/v1/events"})
"""Answers that do not end: they are counted where they are served, and not among the requests in work."""
_MOST_CALLERS: Final = 4_096
"""Callers that are remembered; of more, those that have asked for nothing the longest begin anew."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one caller may ask for."""

    rate: float
    """Requests a second, over time."""
    burst: float
    """Requests at once."""
    at_once: int
    """Requests in work at the same time."""


PEER: Final = Allowance(rate=300, burst=600, at_once=200)
"""One address, before anybody is known to call: many callers may stand behind it."""
CALLER: Final = Allowance(rate=100, burst=200, at_once=20)
"""One caller, by name."""
SCRAPER: Final = Allowance(rate=5, burst=20, at_once=2)
"""One address that reads metrics where nobody has to say who he is."""


class _Account:
    """What one caller has asked for lately."""

    __slots__ = ("bucket", "in_work")

    def __init__(self, allowance: Allowance, now: float) -> None:
        self.bucket = Bucket(allowance.rate, allowance.burst, now)
        self.in_work = 0


class Limiter:
    """The accounts of all callers; bounded.

    Args:
        allowance: of each of them.
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, allowance: Allowance, now: Callable[[], float]) -> None:
        self._allowance = allowance
        self._now = now
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def take(self, who: str) -> float:
        """Counts one request; returns the seconds after which to ask again, 0 where it may go on now."""
        account, now = self._account(who), self._now()
        if not account.bucket.take(now):
            return account.bucket.seconds_to(1, now)
        return 0.0

    def begin(self, who: str) -> bool:
        """Whether one more may be in work; if so, `end` is owed."""
        account = self._account(who)
        if account.in_work >= self._allowance.at_once:
            return False
        account.in_work += 1
        return True

    def end(self, who: str) -> None:
        """A request that was begun has been answered."""
        account = self._accounts.get(who)
        if account is not None and account.in_work > 0:
            account.in_work -= 1

    def _account(self, who: str) -> _Account:
        account = self._accounts.get(who)
        if account is None:
            account = self._accounts[who] = _Account(self._allowance, self._now())
            if len(self._accounts) > _MOST_CALLERS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(who)
        return account


class Limits:
    """Answers 429 to who asks for too much; health passes.

    Args:
        app: what is asked.
        limiter: the accounts.
        who: whose request it is.
    """

    def __init__(self, app: ASGIApp, *, limiter: Limiter, who: Callable[[Scope], str]) -> None:
        self._app = app
        self._limiter = limiter
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        who, limiter = self._who(scope), self._limiter
        seconds = limiter.take(who)
        if seconds > 0:
            detail = (
                f"more requests a second than one caller may send; again in {math.ceil(seconds)} s"
            )
            await _refused(detail, seconds, scope)(scope, receive, send)
            return
        if scope["path"] in STREAMS:
            await self._app(scope, receive, send)
        elif limiter.begin(who):
            try:
                await self._app(scope, receive, send)
            finally:
                limiter.end(who)
        else:
            detail = "too many requests of this caller are in work; wait for their answers"
            await _refused(detail, 1.0, scope)(scope, receive, send)


def _refused(detail: str, seconds: float, scope: Scope) -> ASGIApp:
    problem = Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(seconds))
    return problem.response(trimmed(str(scope["path"]), 200))


def address_of(scope: Scope) -> str:
    """The network address that a request comes from."""
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def name_of(scope: Scope) -> str:
    """The name of the caller that was authenticated; else the address."""
    caller = scope.get("state", {}).get("caller")
    return f"caller {caller.name}" if isinstance(caller, Caller) else address_of(scope)
