"""The controller of Deployments and Scalers in the seed, as far as the watchdog can see it: it fills in the status."""

import asyncio
import contextlib
from typing import Any, Self

import aiohttp

from tests.e2e.api import Api, ApiError, Json, deployments, scalers

_DELAY = 0.2  # seconds from a new spec to its status; pods of control planes take longer, decisions do not


class WorkloadController:
    """Makes `status` follow `spec` in all namespaces of a seed."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.left_to_others: set[tuple[str, str]] = set()
        """(namespace, name) of those whose status somebody else writes."""
        self._loops: list[asyncio.Task[None]] = []
        self._writes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        for path in ("/apis/apps/v1/deployments", "/apis/example.org/v1/scalers"):
            self._loops.append(asyncio.create_task(self._api.follow(path, self._seen)))
        return self

    async def __aexit__(self, *_: object) -> None:
        ending = [*self._loops, *self._writes]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _seen(self, event: str, item: Json) -> None:
        if event not in {"ADDED", "MODIFIED"}:
            return
        name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
        if (namespace, name) in self.left_to_others:
            return
        scaler = "selector" not in item["spec"]
        collection = scalers(namespace) if scaler else deployments(namespace)
        wanted = self._status(item, scaler=scaler)
        if not _has(item.get("status") or {}, wanted):
            task = asyncio.create_task(self._write(f"{collection}/{name}/status", wanted))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    @staticmethod
    def _status(item: Json, *, scaler: bool) -> dict[str, Any]:
        count = item["spec"].get("replicas", 0)
        if scaler:
            return {"replicas": count}
        return {
            "observedGeneration": item["metadata"]["generation"],
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": count,
            "availableReplicas": count,
        }

    async def _write(self, path: str, status: dict[str, Any]) -> None:
        await asyncio.sleep(_DELAY)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, ApiError):
            await self._api.patch(path, {"status": status})


def _has(status: Json, wanted: dict[str, Any]) -> bool:
    """Whether a status says this already; zeros are left out of the JSON."""
    return all(status.get(key, 0) == value for key, value in wanted.items())
