"""Leadership and pauses that a test sets by hand, and what its own connectors have in common."""

from collections.abc import Callable
from typing import Any, Self

import pytest

from app.core.clock import Clock
from app.core.kube.client import ApiRequest
from app.core.kube.seed import SeedCluster
from app.core.kube.seed_api import SeedApi
from app.core.kube.shoot import ShootSession
from app.core.model.overrides import PauseDecision, Scope
from app.core.model.shoots import Route, SecretView


class SetLeadership:
    """A `Leadership` whose state is set by hand."""

    def __init__(self, *, leading: bool = True, may_probe: bool = True) -> None:
        self._leading = leading
        self._may_probe = may_probe
        self._listeners: list[Callable[[], None]] = []

    @property
    def leading(self) -> bool:
        """Whether this instance is the leader."""
        return self._leading

    @property
    def may_probe(self) -> bool:
        """Whether this instance probes shoots; a leader always does."""
        return self._leading or self._may_probe

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of `leading` or `may_probe`."""
        self._listeners.append(listener)

    def run_out(self) -> None:
        """The time of the Lease is over: `leading` says so at once, listeners hear of it later."""
        self._leading = False

    def become(self, *, leading: bool, may_probe: bool = True) -> None:
        """Sets both, and notifies listeners if anything changed."""
        before = (self.leading, self.may_probe)
        self._leading, self._may_probe = leading, may_probe
        if before != (self.leading, self.may_probe):
            for listener in self._listeners:
                listener()


class SetTime:
    """A stopwatch that shows `now`, which a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class SetClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(1000.0, lambda: self.seconds)


class SetPauses:
    """Pauses as the weeder sees them, whose contents are set by hand."""

    def __init__(self) -> None:
        self._synced = True
        self._paused: dict[str, str] = {}
        self._listeners: list[Callable[[str | None], None]] = []

    @property
    def synced(self) -> bool:
        """Whether the pauses have been read."""
        return self._synced

    @synced.setter
    def synced(self, known: bool) -> None:
        self._synced = known
        self._tell()

    def paused(
        self, namespace: str, *, despite: frozenset[PauseDecision] = frozenset()
    ) -> str | None:
        """Returns why pods of a namespace must not be deleted now; None if they may be."""
        return None if self.keeping_off(namespace) <= despite else self._paused[namespace]

    def keeping_off(self, namespace: str) -> frozenset[PauseDecision]:
        """Returns the one pause of a namespace, if there is one: by its reason, all else is the same."""
        reason = self._paused.get(namespace)
        if reason is None:
            return frozenset()
        return frozenset({PauseDecision("", Scope.ALL, reason, "", 0.0, None)})

    def subscribe(self, listener: Callable[[str | None], None]) -> None:
        """Calls `listener` after each change."""
        self._listeners.append(listener)

    def pause(self, namespace: str, reason: str = "paused by a person") -> None:
        """Forbids deletions in a namespace."""
        self._paused[namespace] = reason
        self._tell()

    def resume(self, namespace: str) -> None:
        """Allows deletions in a namespace; has no effect if it is not paused."""
        if self._paused.pop(namespace, None) is not None:
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener(None)


class OwnSessions:
    """A connector whose sessions connect through it, as those of the real one do."""

    def session(
        self, seed: SeedCluster, namespace: str, route: Route, secret_name: str
    ) -> ShootSession:
        """A session that connects through this double."""
        connector: Any = self
        return ShootSession(connector, seed, namespace, route, secret_name)


class HookedConnector(OwnSessions):
    """The connector of a prober, and what happens `before` each of its connections."""

    def __call__(self, real: Any) -> Self:
        """Takes the place of `real`."""
        self._real = real
        self.consumer, self.forget = real.consumer, real.forget
        return self

    async def before(self, secret: SecretView) -> None:
        """What a subclass lets happen; its exceptions are those of the connection."""

    async def connect(self, secret: SecretView) -> Any:
        """Connects as the real one does."""
        await self.before(secret)
        return await self._real.connect(secret)


def before_each_write(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[ApiRequest], object]
) -> None:
    """Calls `happens` with each write whose turn of the seed's budget has come, right before it is checked and sent."""
    call = SeedApi.call

    def meanwhile(
        api: Any, request: ApiRequest, *more: Any, starting: Any = None, **options: Any
    ) -> Any:
        def begins() -> None:
            happens(request)
            starting()

        return call(api, request, *more, starting=starting and begins, **options)

    monkeypatch.setattr(SeedApi, "call", meanwhile)
