"""Defects of the adapter that are made on purpose, from outside, to see that the exploration finds them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from app.core.errors import ClusterError, Conflict, Expired
from app.core.kube.connections import MAX_BODY, ByteBudget
from app.core.kube.decoding import envelope, seed_objects
from app.core.kube.election import LeaseRecord, LeaseStore
from app.core.kube.reflector import ObjectKey, Reflector, Replica
from app.core.kube.seed import SeedCluster
from app.core.model.workloads import Patch, ResourceRef, WorkloadView


def relist_forgets_deletions() -> Any:  # noqa: ANN401  a patch
    """A list adds to the copy, and takes nothing out of it."""

    def put_all(self: Replica[Any], found: Mapping[ObjectKey, Any]) -> tuple[ObjectKey, ...]:
        return tuple(key for key, record in found.items() if self.put(key, record))

    return patch.object(Replica, "replace", put_all)


def bookmark_taken_for_event() -> Any:  # noqa: ANN401  a patch
    """A bookmark is taken for the deletion of what the copy knows last."""
    original = Reflector._take  # noqa: SLF001  a defect in its very midst

    async def take(self: Reflector[Any], event: envelope.WatchEvent) -> str | None:
        version = await original(self, event)
        if event.type == "BOOKMARK":
            known = [(ns, name) for ns, each in self._replica._objects.items() for name in each]  # noqa: SLF001
            if known and self._replica.remove(known[-1]):
                self._changed(*known[-1])
        return version

    return patch.object(Reflector, "_take", take)


def expired_resumed() -> Any:  # noqa: ANN401  a patch
    """After a 410 the watch is resumed from where it was, for ever."""
    original = Reflector._record_failure  # noqa: SLF001  a defect in its very midst

    def suffer(self: Reflector[Any], why: ClusterError | None, failures: int) -> None:
        before = self.version
        original(self, why, failures)
        if isinstance(why, Expired):
            self.version = before

    return patch.object(Reflector, "_record_failure", suffer)


def lease_without_version() -> Any:  # noqa: ANN401  a patch
    """The Lease is written over, whatever has happened to it."""

    async def written(
        self: LeaseStore, record: LeaseRecord, spec: dict[str, Any], within: float
    ) -> LeaseRecord:
        metadata = {k: v for k, v in record.whole["metadata"].items() if k != "resourceVersion"}
        body = {**record.whole, "metadata": metadata, "spec": spec}
        return await self._ask("update", body, within)

    return patch.object(LeaseStore, "replace", written)


def conflict_not_read_again() -> Any:  # noqa: ANN401  a patch
    """What conflicts is sent once more as it was decided, on top of what somebody has written meanwhile."""
    original = SeedCluster.patch_dependent

    async def patched(
        self: SeedCluster,
        namespace: str,
        ref: ResourceRef,
        body: Patch,
        **more: Any,  # noqa: ANN401  handed on
    ) -> WorkloadView:
        try:
            return await original(self, namespace, ref, body, **more)
        except Conflict:
            view = await self.read_dependent(namespace, ref, urgent=True)
            if view is None:
                raise
            newest = replace(body, resource_version=view.resource_version)
            return await original(self, namespace, ref, newest, **more)

    return patch.object(SeedCluster, "patch_dependent", patched)


def last_count_kept() -> Any:  # noqa: ANN401  a patch
    """A size that is missing or 0 is decoded as the one before."""
    original = seed_objects.workload
    last: dict[tuple[str, str], int] = {}

    def workload(ref: ResourceRef) -> Callable[[envelope.Raw], WorkloadView]:
        decode = original(ref)

        def kept(raw: envelope.Raw) -> WorkloadView:
            view = decode(raw)
            key = (str(ref), view.uid)
            last[key] = view.replicas or last.get(key, 0)
            return replace(view, replicas=last[key])

        return kept

    return patch.object(seed_objects, "workload", workload)


def budget_leaks() -> Any:  # noqa: ANN401  a patch
    """What was reserved for an answer that broke off is never given back."""
    original = ByteBudget.claim

    @contextmanager
    def leaking(self: ByteBudget) -> Iterator[Callable[[int], Awaitable[None]]]:
        try:
            with original(self) as grow:
                yield grow
        except BaseException:
            self._used += MAX_BODY
            raise

    return patch.object(ByteBudget, "claim", leaking)


PLANTS: Final[dict[str, Callable[[], Any]]] = {
    "relist-forgets-deletions": relist_forgets_deletions,
    "bookmark-taken-for-event": bookmark_taken_for_event,
    "expired-resumed": expired_resumed,
    "lease-without-version": lease_without_version,
    "conflict-not-read-again": conflict_not_read_again,
    "last-count-kept": last_count_kept,
    "budget-leaks": budget_leaks,
}
