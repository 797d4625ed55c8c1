"""Limits on what callers may ask of the API, so that no caller can starve the process or other callers (threat T15).

- `RateLimits`: a token bucket and a cap on concurrent requests for each address, and for the reads and the writes of
  each caller; refuses with 429 before any work.
- `ReadLocks`: one live read of the seed at a time for each caller.
- `SerializedRequests`: requests run on the event loop one at a time, callers in turn, with pauses for the probes.
"""

import asyncio
import math
import types
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.health import PATHS as HEALTH
from app.api.problems import Problem, ProblemType, wait
from app.core.fair_queue import RoundRobin
from app.core.limits import Bucket
from app.core.model.callers import Caller
from app.core.web.peers import peer_of

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""
STREAMS: Final = frozenset({"/api/v1/events"})
"""Paths of endless answers; `app.api.stream` limits them, not the cap on concurrent requests."""
# Callers that are remembered; beyond that, the one idle for longest is forgotten, and starts with a full bucket.
_MOST_CALLERS: Final = 4_096


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one caller, or of one budget of reviews."""

    rate: float
    """Requests per second, over time."""
    burst: float
    """Requests at once, after an idle period."""
    at_once: float = math.inf
    """Concurrent requests; without a limit where those on connections are enough."""


PEER: Final = Allowance(rate=300, burst=600)
"""One address, before authentication; more than `CALLER`, as many callers may share the address of a proxy.

Concurrent requests of an address are not counted: a body that never arrives would hold a place."""
CALLER: Final = Allowance(rate=100, burst=200, at_once=20)
"""The reads of one authenticated caller, by name, and as much again for its writes."""
SCRAPER: Final = Allowance(rate=5, burst=20, at_once=2)
"""One address on the metrics port, which may be open to everybody."""


@dataclass(slots=True)
class _Account:
    """Token bucket and concurrent requests of one caller."""

    bucket: Bucket
    in_flight: int = 0


class Limiter:
    """Counts the requests of up to `_MOST_CALLERS` callers against one allowance each.

    Args:
        allowance: The limits of each caller.
        now: The current instant, as `Clock.now`.
    """

    def __init__(self, allowance: Allowance, now: Callable[[], float]) -> None:
        self._allowance = allowance
        self._now = now
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def take(self, who: str) -> float:
        """Count one request; returns 0 if it may proceed, otherwise the seconds after which to retry."""
        account, now = self._account(who), self._now()
        if not account.bucket.take(now):
            return account.bucket.seconds_to(1, now)
        return 0.0

    def begin(self, who: str) -> bool:
        """Whether the caller may have one more concurrent request; if so, `end` must follow."""
        account = self._account(who)
        if account.in_flight >= self._allowance.at_once:
            return False
        account.in_flight += 1
        return True

    def end(self, who: str) -> None:
        account = self._accounts.get(who)
        if account is not None and account.in_flight > 0:
            account.in_flight -= 1

    def _account(self, who: str) -> _Account:
        account = self._accounts.get(who)
        if account is None:
            bucket = Bucket(self._allowance.rate, self._allowance.burst, self._now())
            account = self._accounts[who] = _Account(bucket)
            if len(self._accounts) > _MOST_CALLERS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(who)
        return account


class RateLimits:
    """Middleware that answers 429 to callers over their allowance; health passes.

    Args:
        app: The application.
        limiter: Counts the requests.
        who: Returns the name or address that a request is counted for.
    """

    def __init__(self, app: ASGIApp, *, limiter: Limiter, who: Callable[[Scope], str]) -> None:
        self._app = app
        self._limiter = limiter
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        who, limiter = self._who(scope), self._limiter
        seconds = limiter.take(who)
        if seconds > 0:
            detail = (
                f"more requests a second than one caller may send; retry in {math.ceil(seconds)} s"
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
            detail = "too many concurrent requests of this caller"
            await _refused(detail, 1.0, scope)(scope, receive, send)


def _refused(detail: str, seconds: float, scope: Scope) -> ASGIApp:
    problem = Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(seconds))
    return problem.response(scope["path"])


def address_of(scope: Scope) -> str:
    """The network address that a request comes from, as limits count it; IPv6 by its /64 network."""
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def name_of(scope: Scope) -> str:
    """The name of the authenticated caller; without authentication, the address."""
    caller = scope.get("state", {}).get("caller")
    return f"caller {caller.name}" if isinstance(caller, Caller) else address_of(scope)


def share_of(scope: Scope) -> str:
    """The share of a caller that a request is counted for: its reads and its writes have one each.

    With `--auth-mode=none` all callers are one. A client that reads without end, or does not take the answers, must not
    keep an operator from pausing a shoot.
    """
    share = "reads" if scope["method"] in SAFE else "writes"
    return f"{share} of {name_of(scope)}"


# Live reads of the seed: one at a time for each caller, so that no caller uses up the request budget of all.


PATIENCE: Final = 2.0
"""Seconds that a read waits for earlier ones of the same caller."""
# `Retry-After` of the refusal, in seconds.
_RETRY_AFTER: Final = 1.0


class ReadLocks:
    """One lock for each caller with a read in flight or waiting; a caller without any takes no memory."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._turns)

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Hold the caller's lock for the length of one read.

        Raises:
            Problem: Other reads of the same caller held it for 2 s.
        """
        turn = self._turns.setdefault(who, asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE):
                await turn.acquire()
        except TimeoutError as error:
            detail = (
                "a read of resources by this caller is in progress already, and only one such read runs at "
                "a time: wait for its answer"
            )
            raise Problem(
                ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(_RETRY_AFTER)
            ) from error
        try:
            yield
        finally:
            turn.release()


# Sharing the event loop between requests and probes.
#
# A page of 500 shoots keeps the event loop busy for tens of milliseconds. A hundred such requests at once would delay
# every probe by seconds. So a request starts only after the one before has ended, or has awaited something, and after
# a pause of about the same length in which everything else in the event loop can run.


# Seconds of pause for each second that a request kept the event loop.
_PAUSE_RATIO: Final = 1.0
# Longest pause in seconds, however long the request before took.
_MAX_PAUSE: Final = 0.25


class RequestQueue(RoundRobin):
    """One request at a time, round robin over callers, with a rest after each.

    Args:
        now: The current instant, as `Clock.now`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self.now = now
        self._taken = False
        self._free_at = now()

    def missing(self) -> float | None:
        return None if self._taken else max(0.0, self._free_at - self.now())

    def given(self, _key: str, /) -> None:
        self._taken = True

    def returned(self, _key: str, /) -> None:
        self.end(0.0)

    def end(self, seconds: float) -> None:
        """End the turn of a request that kept the event loop for so many seconds."""
        self._taken = False
        self._free_at = self.now() + min(seconds * _PAUSE_RATIO, _MAX_PAUSE)
        self.give()


class SerializedRequests:
    """Middleware that makes each request wait for its turn; health does not wait.

    Args:
        app: The application.
        turns: The queue.
        who: Returns the name or address that a request belongs to.
    """

    def __init__(self, app: ASGIApp, *, turns: RequestQueue, who: Callable[[Scope], str]) -> None:
        self._app = app
        self._turns = turns
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        await self._turns.wait(self._who(scope))
        await self._until_suspended(self._app(scope, receive, send))

    @types.coroutine
    def _until_suspended(self, request: Awaitable[None]) -> Generator[Any, Any, None]:
        """Await `request`, and end its turn when it first suspends, or has finished.

        It drives the coroutine by hand, as only that shows when it suspends. A request that waits for the seed must not
        keep others from their turns.
        """
        work = request.__await__()
        step, ended = partial(next, work), False
        while True:
            began = self._turns.now()
            try:
                waits_for = step()
            except StopIteration:
                return
            finally:
                if not ended:
                    self._turns.end(self._turns.now() - began)
                    ended = True
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - a cancellation, thrown into the coroutine that waits
                step = partial(work.throw, error)
            else:
                step = partial(next, work)
