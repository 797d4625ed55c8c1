"""A control plane as the weeder sees it: pods, services, and the kubelet and the controllers that act on them."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from itertools import count
from typing import Self
from uuid import NAMESPACE_URL, uuid5

import aiohttp

from tests.e2e import weeder_objects as things
from tests.e2e.api import Api, ApiError, Json, all_of
from tests.e2e.processes import eventually

_AT_ONCE = 30
_FINISHED_AFTER = 0.3  # seconds from the deletion of a pod to its end; real ones may take their whole grace period
Uids = dict[str, str]
"""uids by the names of their pods."""


class Place:
    """One control-plane namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.namespace = namespace
        self._api = api
        self._backed = False

    async def create(self) -> None:
        """Creates the namespace."""
        await self._api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    # Pods.

    def owner(self, name: str) -> Json:
        """The reference to a controller of this namespace."""
        return things.owned_by(name, str(uuid5(NAMESPACE_URL, f"{self.namespace}/{name}")))

    async def pod(
        self,
        name: str,
        status: Json,
        *,
        labels: things.Labels = things.DEPENDENT,
        owned: bool = True,
    ) -> Uids:
        """One pod; its controller is named as what stands before the last `-`."""
        owner = self.owner(name.rpartition("-")[0]) if owned else None
        made = things.pod(name, labels, owner, init="initContainerStatuses" in status)
        found = await self._api.create(things.pods(self.namespace), made)
        await self.becomes(name, status)
        return {name: str(found["metadata"]["uid"])}

    async def workloads(
        self,
        owners: int,
        each: int,
        status: Callable[[], Json] = things.crash_looping,
        *,
        labels: things.Labels = things.DEPENDENT,
        named: str = "wait",
    ) -> Uids:
        """So many controllers with so many pods each."""
        names = [f"{named}{owner}-{number}" for owner in range(owners) for number in range(each)]
        found: Uids = {}

        async def make(name: str) -> None:
            found.update(await self.pod(name, status(), labels=labels))

        await all_of((make(name) for name in names), at_once=_AT_ONCE)
        return found

    async def becomes(self, name: str, status: Json) -> None:
        """The kubelet writes another status of a pod."""
        await self._api.patch(f"{things.pods(self.namespace)}/{name}/status", {"status": status})

    async def begin_to_end(self, name: str) -> None:
        """Somebody deletes a pod."""
        await self._api.delete(f"{things.pods(self.namespace)}/{name}")

    async def there(self) -> Uids:
        """The pods that nobody has deleted."""
        found = await self._api.items(things.pods(self.namespace))
        alive = (each["metadata"] for each in found if "deletionTimestamp" not in each["metadata"])
        return {each["name"]: each["uid"] for each in alive}

    # Services.

    async def service(self, *, ready: bool) -> float:
        """The API server becomes ready, or is lost; returns the instant right before its slice was written."""
        backing, slices = f"{things.APISERVER}-0", things.slices(self.namespace)
        status = things.running() if ready else things.crash_looping(restarts=1, ago=0.0)
        made = things.endpoint_slice(backing=backing, ready=ready)
        if self._backed:
            await self.becomes(backing, status)
            at = time.time()
            endpoints = {"endpoints": made["endpoints"]}
            await self._api.patch(f"{slices}/{made['metadata']['name']}", endpoints)
        else:
            self._backed = True
            await self.pod(backing, status, labels=things.OF_APISERVER)
            at = time.time()
            await self._api.create(slices, made)
        return at

    async def clear(self) -> None:
        """Removes all pods and slices."""
        await self._api.delete(f"{things.pods(self.namespace)}?gracePeriodSeconds=0")
        await self._api.delete(things.slices(self.namespace))


class Kubelet:
    """Finishes what was deleted, and lets its controller make it anew; a context manager.

    It knows pods by what the API server tells, and so goes on where it was after the server's restart.
    """

    def __init__(self, api: Api) -> None:
        self.keeps: set[str] = set()
        """Names of pods that take for ever to end."""
        self.finished: set[str] = set()
        """uids of pods that it has ended."""
        self.replaces = True
        self._api = api
        self._names = count()
        self._loop: asyncio.Task[None] | None = None
        self._jobs: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.create_task(self._api.follow("/api/v1/pods", self._seen))
        return self

    async def __aexit__(self, *_: object) -> None:
        ending = [each for each in (self._loop, *self._jobs.values()) if each is not None]
        for each in ending:
            each.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _seen(self, event: str, item: Json) -> None:
        metadata = item["metadata"]
        ends = event != "DELETED" and "deletionTimestamp" in metadata
        uid = metadata["uid"]
        if not ends or uid in self._jobs or uid in self.finished or metadata["name"] in self.keeps:
            return
        self._jobs[uid] = asyncio.create_task(self._finish(item))
        self._jobs[uid].add_done_callback(lambda _: self._jobs.pop(uid, None))

    async def _finish(self, item: Json) -> None:
        metadata = item["metadata"]
        collection = things.pods(metadata["namespace"])
        await asyncio.sleep(_FINISHED_AFTER)
        while True:  # the server may be away
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ApiError):
                await self._api.delete(f"{collection}/{metadata['name']}?gracePeriodSeconds=0")
                break
            await asyncio.sleep(0.3)
        self.finished.add(metadata["uid"])
        if self.replaces and metadata.get("ownerReferences"):
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ApiError):
                await self._make_anew(collection, metadata)

    async def _make_anew(self, collection: str, former: Json) -> None:
        (owner,) = former["ownerReferences"]
        name = f"{owner['name']}-anew{next(self._names)}"
        await self._api.create(collection, things.pod(name, former["labels"], owner))
        await self._api.patch(f"{collection}/{name}/status", {"status": things.running()})


async def until_there(place: Place, number: int, *, within: float) -> Uids:
    """Waits until so many pods live in a namespace; returns them."""

    async def are() -> Uids | None:
        found = await place.there()
        return found if len(found) == number else None

    what = f"{number} pods live in {place.namespace}"
    return await eventually(are, what, within=within, every=0.3) or {}
