"""A strike at every boundary of every request of two recoveries, in turn; the program lists them itself.

One control plane loses its etcd for 140 s and gets it back: kube-apiserver is restarted, and then what depends on it.
It is played once to note every boundary that a request for pods passes meanwhile, then once for each of them: the
process is killed just there and followed by another one; or, with a second instance beside it, it is stopped for longer
than a term.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

from app.core.model.weeding import WeederPolicy
from app.simulation.workloads import ETCD_SERVICE
from bench.exploration.line import Passage
from bench.exploration.story import Story
from bench.exploration.strikes import Case, Strike, played, rehearsed, struck_everywhere
from bench.exploration.weeder.facts import backoff_left
from bench.exploration.weeder.recipe import GARDENER, PlaneRecipe, WeederRecipe
from bench.exploration.weeder.world import Weeding

T = TypeVar("T")
_PLANE: Final = PlaneRecipe("shoot--world--a")
_QUIET: Final = 30.0
_OUTAGE: Final = 140.0
_RECOVERY: Final = 60.0
"""Nobody waits any more after this, with a strike in the midst of it: by itself it would take up to 160 s."""


class Comeback(Weeding):
    """One outage, and at most one strike in what follows it."""

    carries_on = True

    def __init__(self, strike: Strike) -> None:
        instances, policy = strike.how.instances, WeederPolicy(services=GARDENER)
        super().__init__(
            WeederRecipe("boundaries", policy, (_PLANE,), instances=instances, strike_every=1e6)
        )
        self._strike = strike
        self._recovers = False

    async def _chaos(self) -> None:
        for instance in self.instances:
            instance.start()
        await self._pass(_QUIET)
        fault = self.world.faults.service_unready(_PLANE.namespace, ETCD_SERVICE)
        await self._pass(_OUTAGE)
        self._recovers = True
        fault.lift()
        await self._pass(_RECOVERY)
        self._recovers = False
        self._check_recovered()

    def _check_recovered(self) -> None:
        now, pods = self.world.clock.now(), self.world.store.list("Pod", _PLANE.namespace)
        waiting = [pod["metadata"]["name"] for pod in pods if backoff_left(pod, now) is not None]
        if waiting:
            self._violated("what_was_begun_is_finished", f"{', '.join(waiting)} still wait")

    def _passed(self, passage: Passage) -> None:
        super()._passed(passage)
        if self._recovers and passage.request.what == "pods":
            self._strike.note(passage)
        self._strike.fall(passage, self.instances)


@lru_cache
def cases() -> tuple[Case, ...]:
    """All of them, in the order in which they are passed."""
    return rehearsed(Comeback)


def play(case: Case) -> Story:
    """Plays one of them."""
    return played(Comeback, case)


def play_all(jobs: int, what: Callable[[Case, Story], T]) -> Iterator[T]:
    """`what` comes of each, in their order; so many at once."""
    return struck_everywhere(Comeback, "", jobs, what)
