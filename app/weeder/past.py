"""Since when a service is ready that became so while nobody looked: its pods know (spec 6, start and gaps)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from app.core.errors import ClusterError, Forbidden
from app.core.model.pods import PodView
from app.core.model.weeding import Cause, ServiceKey
from app.core.runtime.backoff import Backoff
from app.weeder.environment import Environment
from app.weeder.rules import readiness

log = structlog.get_logger(__name__)

_WORKERS: Final = 8
_TRIES: Final = 5
_IN_PASSING: Final = 2
"""So many refusals are tried again (docs/decisions/0017)."""
_BACKOFF: Final = Backoff(first=1.0, most=10.0)


@dataclass(frozen=True, slots=True)
class Question:
    """Which service, and why it is asked for."""

    key: ServiceKey
    cause: Cause
    heard: float | None = None
    """After a gap: until when nothing was missed."""

    def until(self, since: float, now: float, watch_duration: float) -> float | None:
        """Until when it is to be weeded; None where it is left alone."""
        if self.cause is Cause.GAP:
            return readiness.after_gap(since, self.heard, now, watch_duration)
        return readiness.at_start(since, now, watch_duration)


class PastCheck:
    """Asks the pods behind services since when they are ready."""

    def __init__(self, environment: Environment, found: Callable[[Question, float], None]) -> None:
        """`found` is called with the instant, where it could be found."""
        self._env, self._found = environment, found
        self._questions: OrderedDict[ServiceKey, Question] = OrderedDict()
        self._more = asyncio.Event()

    def ask(self, question: Question) -> None:
        """Asks soon; of two questions about one service the first counts: it reaches further back."""
        self._questions.setdefault(question.key, question)
        self._more.set()

    async def run(self) -> None:
        """Asks for ever."""
        await asyncio.gather(*(self._work() for _ in range(_WORKERS)))

    async def _work(self) -> None:
        while True:
            while not self._questions:
                self._more.clear()
                await self._more.wait()
            _, question = self._questions.popitem(last=False)
            since = await self._since(question)
            if since is not None:
                self._found(question, since)

    async def _since(self, question: Question) -> float | None:
        """The earliest Ready transition of the pods behind the service's ready endpoints; None: not known."""
        since: float | None = None
        for name in readiness.pods_behind(self._env.seed.slices(question.key)):
            try:
                pod = await self._read(question.key.namespace, name)
            except ClusterError as error:
                log.warning(
                    "not known since when a service is ready; its dependants are left alone",
                    namespace=question.key.namespace,
                    service=question.key.service,
                    problem=str(error),
                )
                return None
            found = readiness.became_ready([pod] if pod is not None else [])
            since = found if since is None or (found is not None and found < since) else since
            if since is not None and self._too_long_ago(question, since):
                break  # no other pod can make it later
        return since

    def _too_long_ago(self, question: Question, since: float) -> bool:
        now, duration = self._env.clock.now(), self._env.policy.watch_duration
        return question.until(since, now, duration) is None

    async def _read(self, namespace: str, name: str) -> PodView | None:
        """The pod; what fails in passing is tried again.

        Raises:
            ClusterError: it cannot be read.
        """
        for failures in range(1, _TRIES):
            await self._env.openings.turn(namespace)
            try:
                return await self._env.seed.read_pod(namespace, name)
            except ClusterError as error:
                if isinstance(error, Forbidden) and failures > _IN_PASSING:
                    raise
                await self._env.clock.sleep(error.retry_after or _BACKOFF.delay(failures))
        await self._env.openings.turn(namespace)
        return await self._env.seed.read_pod(namespace, name)
