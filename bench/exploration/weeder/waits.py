"""Pods that wait although a service that they depend on recovers: each is deleted soon, or has a reason."""

from collections.abc import Iterable
from typing import Final

from app.core.model.weeding import ServiceKey
from app.simulation.store import Object
from bench.exploration.weeder.facts import backoff_left, ends, owner_of
from bench.exploration.weeder.ledger import WeederLedger
from bench.exploration.weeder.process import WeederProcess

AFTER: Final = 12.0
"""The opening of its recovery, and the 10 s after which all pods are judged again as caps become free; seconds."""


class Waits:
    """Looks once a second."""

    def __init__(self, ledger: WeederLedger) -> None:
        self._ledger = ledger
        self._since: dict[tuple[str, str], float] = {}

    def look(self, leader: WeederProcess) -> str | None:
        """What is wrong: a pod that waits for too long, without a reason."""
        now, since = self._ledger.now, self._since
        waiting = {
            (leader.name, pod["metadata"]["uid"]): pod for pod in self._that_need_not_wait(leader)
        }
        self._since = {each: since.get(each, now) for each in waiting}
        for each, began in self._since.items():
            if now - began > self._patience(leader, began):
                name, services = waiting[each]["metadata"]["name"], self._services(waiting[each])
                text = ", ".join(sorted(services))
                return f"{name} waits since {now - began:.1f} s, and {text} is ready again"
        return None

    def _patience(self, leader: WeederProcess, began: float) -> float:
        """How long a pod may wait since then; while others are deleted it is not its turn."""
        recipe, sent = self._ledger.recipe, self._ledger.sent[leader.name]
        others = sum(each.at >= began for each in sent)
        return (
            AFTER
            + 3 * recipe.watch_delay
            + 10 * recipe.latency
            + (others + 2) / recipe.deletions_a_second
        )

    def _that_need_not_wait(self, leader: WeederProcess) -> Iterable[Object]:
        recovering = frozenset() if leader.sight is None else leader.sight.namespaces()
        for plane in self._ledger.recipe.planes:
            if plane.namespace not in recovering:
                continue  # of none of its pods need be known how long it waits
            for pod in self._ledger.world.store.list("Pod", plane.namespace):
                if self._has_to_go(leader, pod):
                    yield pod

    def _services(self, pod: Object) -> frozenset[str]:
        return self._ledger.selecting(pod)

    def _has_to_go(self, leader: WeederProcess, pod: Object) -> bool:
        ledger = self._ledger
        left = backoff_left(pod, ledger.now)
        if left is None or left <= ledger.policy.min_backoff_remaining or ends(pod):
            return False
        return self._recovers(leader, pod) and not self._excused(leader, pod)

    def _recovers(self, leader: WeederProcess, pod: Object) -> bool:
        """Whether a service that it depends on recovers for sure, and no 403 has ended that."""
        namespace = pod["metadata"]["namespace"]
        for service in self._services(pod):
            key = ServiceKey(namespace, service)
            began = None if leader.sight is None else leader.sight.surely(key)
            refused = self._ledger.forbidden[leader.name]
            if began is not None and not any(
                at >= began and where == namespace for at, where in refused
            ):
                return True
        return False

    def _excused(self, leader: WeederProcess, pod: Object) -> bool:
        """It is bare, or so many pods of its owner were deleted that this one is not."""
        policy, owner = self._ledger.policy, owner_of(pod)
        if owner is None:
            return not policy.weed_bare_pods
        since = self._ledger.now - policy.watch_duration - AFTER
        sent = self._ledger.sent[leader.name]
        uids = {each.uid for each in sent if each.owner == owner and each.at > since}
        return len(uids) >= policy.max_deletions_per_workload
