"""What the opponent judges: nodes that report their status, with pods on them, and who watches both."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import aiohttp

from app.core.model.instants import rfc3339
from tests.e2e.api import NODES, Api, ApiError, Json, all_of
from tests.e2e.kubelets import NodesPath

PODS: Final = "/api/v1/namespaces/default/pods"
TAINTS: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_TOLERATED = 5
"""Seconds that a pod stays on a node with such a taint: by default 300, longer than an experiment lasts."""

# A real kubelet looks at its node every 10 s, 4 % jittered; it writes the status where the API server has another one,
# and every 5 min in any case.
_LOOK, _JITTER, _REPORT = 10.0, 0.04, 300.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A node was seen with something that only its controller would have given it."""

    at: float
    node: str
    what: str
    """`Ready=Unknown`, or a taint with its effect."""


def marks_of(node: Json) -> list[str]:
    """What is wrong with a node, as others see it."""
    ready = ready_status(node)
    found = [] if ready == "True" else [f"Ready={ready}"]
    taints = node["spec"].get("taints") or []
    return found + [
        f"{taint['key']}:{taint['effect']}" for taint in taints if taint["key"] in TAINTS
    ]


def ready_status(node: Json) -> str:
    """The status of its condition Ready; `absent` where it has none."""
    return str(_ready(node).get("status", "absent"))


def _ready(node: Json) -> Json:
    found = node["status"].get("conditions") or []
    return next((each for each in found if each["type"] == "Ready"), {})


class Observer:
    """Watches nodes and pods of a shoot without a pause, and remembers each mark and each eviction."""

    def __init__(self, api: Api) -> None:
        self.nodes: dict[str, Json] = {}
        self.marks: list[Mark] = []
        self.evicted: dict[str, float] = {}
        """Pods that were deleted, and when that was seen."""
        self.watches = 0
        """How many watches it took; more than one for each collection, and something may have gone unseen."""
        self._api = api
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for path, seen in {NODES: self._node, PODS: self._pod}.items():
            following = self._api.follow(path, seen, self._begins)
            self._tasks.append(asyncio.create_task(following))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def unbroken(self) -> bool:
        """Whether all that happened was seen."""
        return self.watches == len(self._tasks)

    def clean(self, count: int) -> bool:
        """Whether there are so many nodes, and nothing is wrong with any."""
        return len(self.nodes) == count and not any(marks_of(each) for each in self.nodes.values())

    def marked(self, since: float, containing: str = "") -> set[str]:
        """The nodes that were ever marked from `since` on."""
        return {each.node for each in self.marks if each.at >= since and containing in each.what}

    def first(self, since: float) -> float | None:
        """When the first node was marked from `since` on."""
        return min((each.at for each in self.marks if each.at >= since), default=None)

    def _begins(self) -> None:
        self.watches += 1

    def _node(self, event: str, item: Json) -> None:
        if event not in {"ADDED", "MODIFIED"}:
            return
        name, now = item["metadata"]["name"], time.time()
        before = self.nodes.get(name)
        known = marks_of(before) if before else []
        self.nodes[name] = item
        self.marks += [Mark(now, name, what) for what in marks_of(item) if what not in known]

    def _pod(self, event: str, item: Json) -> None:
        if event == "DELETED" or "deletionTimestamp" in item["metadata"]:
            self.evicted.setdefault(item["metadata"]["name"], time.time())


class NodeStatuses:
    """The other half of each kubelet: it reports its node as ready, through the path that its Lease takes."""

    def __init__(
        self,
        api: Api,
        names: Iterable[str],
        observer: Observer,
        path: NodesPath,
        chance: random.Random,
    ) -> None:
        self._api = api
        self._names = list(names)
        self._probe = observer
        self._path = path
        self._random = chance
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await all_of(self._write(name) for name in self._names)
        self._tasks = [asyncio.create_task(self._run(name)) for name in self._names]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: str) -> None:
        due = time.time() + self._random.uniform(0, _REPORT)
        await asyncio.sleep(self._random.uniform(0, _LOOK))
        while True:
            if self._path.open_for(name) and (self._differs(name) or time.time() >= due):
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, ApiError):
                    await self._write(name)
                    due = time.time() + _REPORT
            await asyncio.sleep(_LOOK * (1 + _JITTER * self._random.random()))

    def _differs(self, name: str) -> bool:
        """Whether the API server has another status; a kubelet asks, the observer knows."""
        return ready_status(self._probe.nodes.get(name, _NEW)) != "True"

    async def _write(self, name: str) -> None:
        before, now = _ready(self._probe.nodes.get(name, _NEW)), rfc3339(time.time())
        since = before["lastTransitionTime"] if before.get("status") == "True" else now
        status = {"conditions": conditions(now, since)}
        await self._api.patch(f"{NODES}/{name}/status", {"status": status})


_NEW: Final[Json] = {"spec": {}, "status": {}}


def conditions(now: str, since: str) -> list[dict[str, str]]:
    """The conditions of a node that has been well since then."""

    def one(kind: str, status: str, reason: str) -> dict[str, str]:
        times = {"lastHeartbeatTime": now, "lastTransitionTime": since}
        return {"type": kind, "status": status, "reason": reason, "message": reason, **times}

    return [
        one("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        one("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        one("PIDPressure", "False", "KubeletHasSufficientPID"),
        one("Ready", "True", "KubeletReady"),
    ]


def pod(node: str) -> Mapping[str, Any]:
    """A pod that is bound to a node and does not stay on it for long once it is tainted."""
    tolerations = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED}
        for key in TAINTS
    ]
    containers = [{"name": "main", "image": "registry.invalid/none:1"}]
    spec = {"nodeName": node, "containers": containers, "tolerations": tolerations}
    return {"metadata": {"name": f"on-{node}"}, "spec": spec}


@contextlib.asynccontextmanager
async def pods_on(api: Api, nodes: Collection[str]) -> AsyncIterator[None]:
    """A pod on each of these nodes, for as long as the block runs."""
    try:
        await all_of(api.create(PODS, dict(pod(node))) for node in nodes)
        yield
    finally:
        await api.delete(f"{PODS}?gracePeriodSeconds=0")
