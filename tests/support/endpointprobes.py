"""Pods, handlers and a prober's surroundings for the tests of endpoint probes; time is virtual."""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from app.core.clock import Clock
from app.core.model.endpoints import (
    Effect,
    EndpointProbeSpec,
    Exec,
    Grpc,
    Handler,
    HttpGet,
    ProbedContainer,
    ProbedPod,
    ProbeOutcome,
    ProbeType,
    Ran,
    TargetAddress,
    TcpSocket,
)
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.policy import ProberPolicy
from app.core.ports import CountRun, WatchState
from app.core.reporting.notices import Notice, NoticeBus
from app.core.tasks import Tasks
from app.prober.endpoints.manager import EndpointProbes
from app.prober.endpoints.worker import EndpointResultView, Worker
from app.prober.environment import EndpointAdapters, ProberEnvironment
from app.prober.rules.gates import GateInputs
from tests.support.doubles import SetLeadership

NAMESPACE = "shoot--local--a"
ETCD = LabelSelector((Requirement("app", Operator.IN, frozenset({"etcd"})),))
SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR


def host_probe(name: str = "canary", **changes: Any) -> EndpointProbeSpec:
    """One of a host of each namespace."""
    return EndpointProbeSpec(
        name, tcp_socket=TcpSocket(443), host="kube-apiserver.{namespace}.svc", **changes
    )


def pod_probe(name: str = "etcd", **changes: Any) -> EndpointProbeSpec:
    """One of the containers of etcd."""
    return EndpointProbeSpec(name, tcp_socket=TcpSocket(2379), pods=ETCD, **changes)


def gate_probe(**changes: Any) -> EndpointProbeSpec:
    """One whose failures keep a scale-down from starting."""
    return replace(host_probe(), **{"effect": Effect.GATE_SCALE_DOWN, **changes})


def startup_probe(name: str = "startup", **changes: Any) -> EndpointProbeSpec:
    """One that the others of its target wait for."""
    return pod_probe(name, type=ProbeType.STARTUP, **changes)


def container(name: str = "etcd", **changes: Any) -> ProbedContainer:
    """One that has run for long."""
    return ProbedContainer(name, f"containerd://{name}-1", running=True, started_at=0.0)._replace(
        **changes
    )


@dataclass(frozen=True, slots=True)
class LabelledPod(ProbedPod):
    """With what a selector goes by: the API server's business, which no translated pod has."""

    labels: Mapping[str, str] = field(default_factory=dict)


def pod(name: str = "etcd-0", **changes: Any) -> LabelledPod:
    """One with one container that runs."""
    known: dict[str, Any] = {
        "namespace": NAMESPACE,
        "name": name,
        "uid": f"uid-{name}",
        "resource_version": "1",
        "labels": {"app": "etcd"},
        "ip": "10.0.0.1",
        "phase": "Running",
        "containers": (container(),),
    }
    return LabelledPod(**{**known, **changes})


class Pods:
    """A `ProbedPods` that holds what the test says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[str, LabelledPod] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.followed: list[str] = []
        self.state: WatchState | None = None
        """None: a watch that is in touch."""

    def follow(self, namespace: str) -> None:
        self.followed.append(namespace)

    def leave(self, namespace: str) -> None:
        self.followed.remove(namespace)

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        found = (each for each in self._pods.values() if each.namespace == namespace)
        return [each for each in found if selector.matches(each.labels)]

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        return self.state or WatchState(synced=True, last_contact=self._clock.now())

    def subscribe(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def put(self, *pods: LabelledPod) -> None:
        """These are there, and are like this."""
        self._pods.update((each.name, each) for each in pods)
        self.tell()

    def change(self, name: str = "etcd-0", **changes: Any) -> None:
        """One of them is another one now; `id`, `running` and `started_at` are of its containers."""
        of_container = {key: changes.pop(key) for key in list(changes) if key in _OF_CONTAINER}
        before = self._pods[name]
        containers = tuple(each._replace(**of_container) for each in before.containers)
        self.put(replace(before, **{"containers": containers, **changes}))

    def remove(self, name: str = "etcd-0") -> None:
        del self._pods[name]
        self.tell()

    def tell(self, namespace: str = NAMESPACE) -> None:
        for listener in self._listeners:
            listener(namespace)


_OF_CONTAINER = {"id", "running", "started_at", "ports"}


@dataclass
class Run:
    """One run of a probe, as the handlers saw it."""

    at: float
    probe: str
    address: TargetAddress


@dataclass
class FakeHandlers:
    """`Handlers` whose outcomes are a script; the last goes on for ever."""

    clock: Clock
    takes: float = 0.0
    stubborn: bool = False
    """A run that is broken off has a result all the same."""
    runs: list[Run] = field(default_factory=list)
    under_way: int = 0
    _scripts: dict[str, list[ProbeOutcome | Exception]] = field(default_factory=dict)

    def say(self, *outcomes: ProbeOutcome | Exception, of: str = "") -> None:
        """What the next runs bring: of this probe or pod, or of all."""
        self._scripts[of] = list(outcomes)

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        self.runs.append(Run(self.clock.now(), probe.name, address))
        names = (address.pod, probe.name, "")
        script = next((self._scripts[each] for each in names if each in self._scripts), [SUCCESS])
        said = script.pop(0) if len(script) > 1 else script[0]
        self.under_way += 1
        try:
            await self.clock.sleep(self.takes)
        except asyncio.CancelledError:
            if not self.stubborn:
                raise
        finally:
            self.under_way -= 1
        if isinstance(said, Exception):
            raise said
        return Ran(said, f"it was {said}")


@dataclass
class Meter:
    """What is counted of the runs."""

    runs: list[tuple[str, ProbeOutcome, float]] = field(default_factory=list)
    real: CountRun = lambda *_: None
    """What the program counts with, if the test has it."""

    def ran(self, namespace: str, outcome: ProbeOutcome, seconds: float) -> None:
        self.runs.append((namespace, outcome, seconds))
        self.real(namespace, outcome, seconds)


class Chance(random.Random):
    """It is always the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


class Bench:
    """Endpoint probes among fakes; what starts anywhere in its period starts at half of it."""

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        probes: Iterable[EndpointProbeSpec],
        chance: float | random.Random = 0.5,
        together: float = 0.0,
    ) -> None:
        self.clock, self.tasks = clock, tasks
        self.pods, self.handlers, self.meter = Pods(clock), FakeHandlers(clock), Meter()
        self.leadership = SetLeadership()
        self.notices: list[Notice] = []
        board = NoticeBus()
        board.subscribe(self.notices.append)
        missing: Any = None  # nothing of an environment that endpoint probes have to do with
        environment = ProberEnvironment(
            policy=ProberPolicy("kubeconfig", (), endpoint_probes=tuple(probes)),
            seed=missing,
            connector=missing,
            leadership=self.leadership,
            clock=clock,
            tasks=tasks,
            notice_bus=board,
            chance=Chance(chance) if isinstance(chance, float) else chance,
            overrides=missing,
            override_service=missing,
            runs_together=together,
        )
        adapters = EndpointAdapters(self.handlers, cast("Any", self.pods), self.meter.ran)
        self.probes = EndpointProbes(environment, adapters)
        self.told: list[str] = []
        self.probes.subscribe(self.told.append)
        self.began = clock.now()

    @property
    def now(self) -> float:
        """Seconds since the begin, to the millisecond."""
        return round(self.clock.now() - self.began, 3)

    @property
    def reasons(self) -> list[str]:
        return [str(each.reason) for each in self.notices]

    @property
    def run_times(self) -> list[float]:
        return [round(run.at - self.began, 2) for run in self.handlers.runs]

    def view(self, name: str | None = None) -> EndpointResultView:
        """The only one, or the only one of this probe."""
        (found,) = [each for each in self.probes.views(NAMESPACE) if name in {None, each.name}]
        return found

    def workers(self) -> list[Worker]:
        """Those of targets that have not ended."""
        manager = self.probes._managers.get(NAMESPACE)
        by_probe = {} if manager is None else manager._workers
        return [each for those in by_probe.values() for each in those.values() if not each.ended]

    def said(self) -> list[GateInputs]:
        """What is known of each target that has or had a container."""
        found = [each.reading() for each in self.workers()]
        return [each for each in found if each.result is not None]

    def closed(self) -> str | None:
        return self.probes.closed(NAMESPACE)

    async def start(self, *pods: LabelledPod) -> None:
        self.pods.put(*pods)
        self.probes.start(NAMESPACE)
        await self.passes(0.01)

    async def passes(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def freeze(self, seconds: float) -> None:
        """The process does not get the CPU for so long: time has passed, and nothing has happened in it."""
        loop: Any = asyncio.get_running_loop()
        loop.setup_looptime(start=loop.time() + seconds, noop_cycles=1)


def handled_by(handler: Handler) -> dict[str, Any]:
    """The key of a probe for its handler, whichever it is."""
    keys = {HttpGet: "http_get", TcpSocket: "tcp_socket", Grpc: "grpc", Exec: "exec"}
    return {keys[type(handler)]: handler}
