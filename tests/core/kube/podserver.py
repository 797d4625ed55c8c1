"""A server of pods in virtual time: it has a log, answers late, and watches of it lag behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import msgspec

from app.core.clock import Clock
from app.core.errors import BadAnswer, Expired, Unreachable
from app.core.kube.pods import ProbedPods
from app.core.kube.seed_api import Budget
from app.core.metrics import Metrics
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.tasks import Tasks

A, B, C = "shoot--dev--a", "shoot--dev--b", "shoot--dev--c"
ROLE = LabelSelector((Requirement("role", Operator.IN, frozenset({"apiserver"})),))
ETCD = LabelSelector((Requirement("role", Operator.IN, frozenset({"main"})),))
EXPIRED = {"code": 410, "message": "too old resource version"}

Key = tuple[str, str]


def pod_of(namespace: str, name: str, version: int, **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": version}
    meta["resourceVersion"] = str(version)
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", **status},
    }


class PodServer:
    """All pods match every selector."""

    def __init__(self) -> None:
        self.clock, self.metrics = Clock.of_loop(), Metrics()
        self.pods: dict[Key, dict[str, Any]] = {}
        self.version = 1
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.compacted = 0
        self.before = self.after = 0.01
        """Seconds from a request to what it shows, and from there to the answer."""
        self.lag = 0.0
        """Seconds that watches are behind."""
        self.fails: Callable[[Any], Exception | None] = lambda _: None
        self.asked: list[Any] = []
        self.budgets: set[Budget] = set()
        self.open = self.cuts = 0
        self._news = asyncio.Event()
        self._lists: dict[str, tuple[list[dict[str, Any]], int]] = {}

    # What happens to pods.

    def put(self, namespace: str, name: str, **status: Any) -> None:
        self.version += 1
        word = "MODIFIED" if (namespace, name) in self.pods else "ADDED"
        self.pods[namespace, name] = pod_of(namespace, name, self.version, **status)
        self._tell(word, self.pods[namespace, name])

    def delete(self, namespace: str, name: str) -> None:
        self.version += 1
        last = self.pods.pop((namespace, name))
        self._tell(
            "DELETED",
            {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}},
        )

    def _tell(self, word: str, pod: dict[str, Any]) -> None:
        self.log.append((self.version, word, pod))
        self._stir()

    def _stir(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def compact(self) -> None:
        self.version += 1  # as something else happens
        self.compacted = self.version

    def cut(self) -> None:
        """All watches break."""
        self.cuts += 1
        self._stir()

    # What is asked of it.

    def lists(self) -> int:
        """How many lists there were; pages after the first are none."""
        return sum(not {"watch", "continue"} & {*each.params} for each in self.asked)

    def _note(self, request: Any, budget: Budget) -> None:
        self.asked.append(request)
        self.budgets.add(budget)
        if (error := self.fails(request)) is not None:
            raise error

    async def call(self, request: Any, decode: Any, budget: Budget = Budget.NORMAL) -> Any:
        self._note(request, budget)
        await asyncio.sleep(self.before)
        answer = self._page(request)
        await asyncio.sleep(self.after)
        try:
            return decode(json.dumps(answer).encode())
        except msgspec.MsgspecError as error:  # as the client does
            raise BadAnswer(str(error)) from error

    def _page(self, request: Any) -> dict[str, Any]:
        limit = int(request.params["limit"])
        token = request.params.get("continue")
        if token is None:
            items = [pod for _, pod in sorted(self.pods.items())]
            token, begin = f"{len(self.asked)}", 0
            self._lists[token] = (items, self.version)
        else:
            token, _, first = token.partition(".")
            begin = int(first)
        items, version = self._lists[token]
        if version < self.compacted and begin:
            raise Expired("the continue parameter is too old", status=410)
        more = f"{token}.{begin + limit}" if begin + limit < len(items) else ""
        meta = {"resourceVersion": str(version), "continue": more}
        return {"kind": "PodList", "metadata": meta, "items": items[begin : begin + limit]}

    @asynccontextmanager
    async def watch(
        self, request: Any, *, silence: float, budget: Budget = Budget.NORMAL
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._note(request, budget)
        self.open += 1
        try:
            yield self._lines(int(request.params["resourceVersion"]), request)
        finally:
            self.open -= 1

    async def _lines(self, since: int, request: Any) -> AsyncIterator[bytes]:
        if since < self.compacted:
            yield json.dumps({"type": "ERROR", "object": EXPIRED}).encode()
            return
        loop, cuts = asyncio.get_running_loop(), self.cuts
        end = loop.time() + int(request.params["timeoutSeconds"])
        while loop.time() < end:
            news = self._news
            for version, word, pod in [each for each in self.log if each[0] > since]:
                if self.lag:
                    await asyncio.sleep(self.lag)
                if self.cuts != cuts:
                    raise Unreachable("cut")
                since = version
                yield json.dumps({"type": word, "object": pod}).encode()
            try:
                async with asyncio.timeout(end - loop.time()):
                    await news.wait()
            except TimeoutError:
                return
            if self.cuts != cuts:
                raise Unreachable("cut")


class Probed:
    """The pods of a server, as they are seen, and what is told of them."""

    def __init__(self, server: PodServer, selectors: tuple[LabelSelector, ...]) -> None:
        self.server, self.clock, self.metrics = server, server.clock, server.metrics
        self.tasks = Tasks(self.clock)
        self.pods = ProbedPods(cast("Any", server), selectors, self.tasks, Random(1))
        self.told: list[tuple[str, str]] = []
        """Each namespace that was told, and what was seen of it then."""
        self.pods.subscribe(lambda namespace: self.told.append((namespace, self.names(namespace))))

    def names(self, namespace: str, selector: LabelSelector = ROLE) -> str:
        return " ".join(sorted(each.name for each in self.pods.pods(namespace, selector)))

    def versions(self, namespace: str) -> dict[str, str]:
        return {each.name: each.resource_version for each in self.pods.pods(namespace, ROLE)}

    def synced(self, namespace: str, selector: LabelSelector = ROLE) -> bool:
        return self.pods.watch_state(namespace, selector).synced

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@asynccontextmanager
async def probed(
    server: PodServer, *selectors: LabelSelector, following: tuple[str, ...] = ()
) -> AsyncIterator[Probed]:
    """The watches run within; those who are followed were, and are listed where that is possible."""
    made = Probed(server, selectors or (ROLE,))
    try:
        await made.pods.start()
        for namespace in following:
            made.pods.follow(namespace)
        await asyncio.sleep(2)
        yield made
    finally:
        await made.pods.close()
        await made.tasks.stop()
