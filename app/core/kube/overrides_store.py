"""Watches, reads and writes the ConfigMap of the overrides (`ports.OverridesStore`)."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import structlog

from app.core.clock import Clock
from app.core.errors import BadAnswer, Conflict, NotFound
from app.core.kube import decoding, sources
from app.core.kube.access import OVERRIDES_FEATURE
from app.core.kube.client import ApiRequest
from app.core.kube.failures import RequestedRight
from app.core.kube.reflector import Reflector, RefusalWatch
from app.core.kube.replica import ObjectKey
from app.core.kube.resources import CONFIG_MAPS
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.kube.sources import CONFIG_MAP_BYTES
from app.core.metrics import Metrics
from app.core.model.overrides import OVERRIDES
from app.core.ports import OverridesDocument, Starting, WatchState
from app.core.tasks import Tasks, cancelled

log = structlog.get_logger(__name__)


class KubeOverridesStore:
    """The ConfigMap in the seed, with a copy of it."""

    def __init__(
        self,
        api: SeedApi,
        namespace: str,
        clock: Clock,
        tasks: Tasks,
        metrics: Metrics,
        random: Random,
    ) -> None:
        """Sends nothing yet.

        Args:
            api: sends the requests.
            namespace: the watchdog's own namespace.
            clock: timestamps the contacts of the watch.
            tasks: owns the watch task; if it dies the process ends.
            metrics: counts watch restarts.
            random: spreads retries and the durations of watches.
        """
        self._api, self._namespace, self._tasks = api, namespace, tasks
        self._listeners: list[Callable[[], None]] = []
        self._running: list[Any] = []
        self._off = metrics.feature_off.labels(OVERRIDES_FEATURE)
        self._requests = RefusalWatch(api, self._refusal_changed)
        self._reflector = Reflector(
            sources.overrides(namespace), self._requests, clock, metrics, random, self._changed
        )
        self._reflector.tell_lists(self._listed)

    async def start(self) -> None:
        """Starts the watch; does not wait until it is synced."""
        watch = self._tasks.shared(self._reflector.run, f"watch {CONFIG_MAPS.plural}")
        self._running.append(watch)

    async def close(self) -> None:
        """Stops the watch."""
        for task in self._running:
            await cancelled(task)
        self._running.clear()

    def troubles(self) -> Mapping[str, str]:
        """Returns why the watch does not work, by its name; empty if it does."""
        trouble = self._reflector.trouble
        return {} if trouble is None else {CONFIG_MAPS.plural: trouble}

    @property
    def forbidden(self) -> str | None:
        """Why reading it is forbidden; None while it is allowed, or not known to be forbidden."""
        return self._requests.forbidden

    def watch_state(self) -> WatchState:
        """Returns the state of the watch."""
        return self._reflector.state

    def document(self) -> OverridesDocument | None:
        """Returns it as the watch shows it; None if it does not exist."""
        return self._reflector.of(self._namespace).get(OVERRIDES)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of the document or of `forbidden`, and after each list."""
        self._listeners.append(listener)

    def _refusal_changed(self) -> None:
        self._off.set(0 if self.forbidden is None else 1)
        if self.forbidden is not None:
            log.error(
                "reading the overrides is forbidden",
                feature=OVERRIDES_FEATURE,
                error=self.forbidden,
            )
        self._tell()

    def _changed(self, _namespace: str, _name: str) -> None:
        self._tell()

    def _listed(self, _since: float | None, _news: tuple[ObjectKey, ...]) -> None:
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            try:
                listener()
            except Exception as error:
                log.exception("a listener failed", watch=CONFIG_MAPS.plural, exc_info=error)

    # Live.

    async def read(self) -> OverridesDocument | None:
        """Reads it live; returns None if it does not exist."""
        request = ApiRequest(self._asked("get"), self._path(), WITHIN, most=CONFIG_MAP_BYTES)
        try:
            return await self._api.call(request, _document)
        except NotFound:
            return None

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Creates it.

        Raises:
            Conflict: it exists already.
            Forbidden: the right is missing.
            Invalid: it is too large.
        """
        body = {
            "apiVersion": CONFIG_MAPS.version,
            "kind": "ConfigMap",
            "metadata": {"name": OVERRIDES, "namespace": self._namespace},
            "data": dict(data),
        }
        path = CONFIG_MAPS.path(self._namespace)
        return await self._write("create", "POST", path, body, starting)

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Replaces the data of `document`, under its resourceVersion; everything else in the object is preserved.

        Raises:
            Conflict: it has changed since, or is gone.
            Forbidden: the right is missing.
            Invalid: it is too large, or `immutable`.
        """
        body = {**document.whole, "data": dict(data)}
        try:
            return await self._write("update", "PUT", self._path(), body, starting)
        except NotFound as gone:
            raise Conflict(str(gone), status=gone.status) from gone

    async def _write(
        self,
        verb: str,
        method: str,
        path: str,
        body: Mapping[str, Any],
        starting: Starting | None,
    ) -> OverridesDocument:
        """Writes on a new connection: a dead kept-alive one would cost seconds, and a write is never repeated here."""
        request = ApiRequest(
            self._asked(verb), path, WITHIN, method=method, body=body, most=CONFIG_MAP_BYTES
        )
        return await self._api.call(request, _document, new_connection=True, starting=starting)

    def _path(self) -> str:
        return CONFIG_MAPS.path(self._namespace, OVERRIDES)

    def _asked(self, verb: str) -> RequestedRight:
        return RequestedRight(verb, CONFIG_MAPS.plural, f"{self._namespace}/{OVERRIDES}")


def _document(raw: decoding.Raw) -> OverridesDocument:
    """Decodes an answer that should be our ConfigMap."""
    found = decoding.overrides(raw)
    name = (found.whole.get("metadata") or {}).get("name")
    if found.whole.get("kind") != "ConfigMap" or name != OVERRIDES:
        raise BadAnswer(f"the answer is not ConfigMap {OVERRIDES}")
    return found
