"""Fakes of what the API is given, all in memory, and the application on them."""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.application import Middleware, create_api
from app.api.auth.authorization import Call
from app.api.context import Context, ProberView
from app.api.health import Health
from app.api.problems import Problem, ProblemType
from app.core.config.settings import ServiceSettings
from app.core.errors import ConfigWarning, FeatureUnavailable, NotFound, Refused
from app.core.metrics import Metrics
from app.core.model import overrides, weeding
from app.core.model import workloads as ann
from app.core.model.callers import Caller, Role
from app.core.model.overrides import (
    API_PAUSE,
    EffectiveOverrides,
    IgnoreRequest,
    ObjectId,
    Pause,
    ScaleRequest,
)
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.scaling_runs import (
    OperationPhase,
    ScaleSpec,
    ScalingPlan,
    ScalingRunStatus,
    Trigger,
)
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.ports import PauseWrite, Permission
from app.core.reporting.audit import AuditLog
from app.core.reporting.history import History
from app.prober.endpoints.gates import GateView
from app.prober.endpoints.worker import EndpointResultView
from app.prober.status import ShootStatus
from tests.api import facts


@dataclass
class FakeShoots:
    listed: bool = True
    known: dict[str, ShootStatus] = field(default_factory=dict)
    past: History = field(default_factory=History)
    breaks: Exception | None = None

    def add(self, *statuses: ShootStatus) -> None:
        self.known |= {each.namespace: each for each in statuses}

    def statuses(self):
        if self.breaks is not None:
            raise self.breaks
        return list(self.known.values())

    def summaries(self):
        return [each.summary for each in self.statuses()]

    def status(self, namespace):
        return self.known.get(namespace)


@dataclass
class FakeEndpoints:
    """What endpoint probes found out, by namespace."""

    found: dict[str, tuple[EndpointResultView, ...]] = field(default_factory=dict)
    closing: dict[str, tuple[GateView, ...]] = field(default_factory=dict)

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        return self.found.get(namespace, ())

    def gates(self, namespace: str) -> tuple[GateView, ...]:
        return self.closing.get(namespace, ())


@dataclass
class FakeWeeders:
    known: dict[weeding.ServiceKey, weeding.ServiceStatus] = field(default_factory=dict)
    refuses: Exception | None = None
    begun: list[weeding.RecoveryStatus] = field(default_factory=list)
    served: Collection[str] | None = None

    def namespaces(self):
        return self.served

    def add(self, *statuses: weeding.ServiceStatus) -> None:
        self.known |= {each.key: each for each in statuses}

    def statuses(self):
        return [each for each in self.known.values() if each.recoveries]

    def status(self, key):
        return self.known.get(key)

    def check_weed_now(self, key: weeding.ServiceKey, *, force: bool) -> str | None:
        """Raises `refuses`, where there is one, unless forced."""
        if self.refuses is None:
            return None
        if not force:
            raise self.refuses
        return str(self.refuses)

    def weed_now(
        self, key: weeding.ServiceKey, *, author: str, reason: str, force: bool
    ) -> weeding.RecoveryStatus:
        """Watches at once, if `check_weed_now` lets it."""
        self.check_weed_now(key, force=force)
        begun, asked = facts.recovery(key, facts.NOW), weeding.WeedRequest(author, reason)
        begun = replace(begun, id=len(self.begun) + 1, cause=weeding.Cause.ASKED, asked=asked)
        self.begun.append(begun)
        return begun


@dataclass
class FakeOverrides:
    """What people decided, in memory: the view and the service in one."""

    objects: dict[tuple[str, str], Pause] = field(default_factory=dict)
    """The Pauses by namespace and name."""
    orders: dict[str, ScaleRequest] = field(default_factory=dict)
    """The ScaleRequests by uid."""
    now: float = facts.NOW
    synced: bool = True
    off: str | None = None
    breaks: Exception | None = None
    """Raised by every write, which then changes nothing."""
    enders: list[str] = field(default_factory=list)
    """Who ended each pause and hold."""
    ended: dict[str, str] = field(default_factory=dict)
    """The same by the uid of the object."""
    listeners: list[Callable[[str | None], None]] = field(default_factory=list)

    # What tests do to it.

    def add(self, *made: Pause | ScaleRequest) -> None:
        """Somebody makes them, or replaces those of the same name."""
        for each in made:
            if isinstance(each, Pause):
                self.objects[each.id.namespace, each.id.name] = each
            else:
                self.orders[each.id.uid] = each
            self.tell(each.id.namespace)

    def clear(self) -> None:
        self.objects.clear()
        self.orders.clear()
        self.tell(facts.HOME)

    def api(self, namespace: str = facts.NAMESPACE) -> Pause:
        """The Pause that the API made there."""
        return self.objects[namespace, API_PAUSE]

    def tell(self, namespace: str) -> None:
        for listener in self.listeners:
            listener(None if namespace == facts.HOME else namespace)

    # The view.

    def effective(self, namespace: str) -> EffectiveOverrides:
        return overrides.effective(
            self.pauses(namespace), self.pauses(None), self.requests(namespace), self.now
        )

    def global_pause(self) -> Pause | None:
        return next(iter(overrides.ordered(self.pauses(None), self.now)), None)

    def pauses(self, namespace: str | None) -> list[Pause]:
        where = facts.HOME if namespace is None else namespace
        return [each for each in self.objects.values() if each.id.namespace == where]

    def requests(self, namespace: str | None = None) -> list[ScaleRequest]:
        return [each for each in self.orders.values() if namespace in {None, each.id.namespace}]

    def request(self, uid: str, namespace: str | None = None) -> ScaleRequest | None:
        return next((each for each in self.requests(namespace) if each.id.uid == uid), None)

    def with_requests(self) -> set[str]:
        return {each.id.namespace for each in self.orders.values()}

    def subscribe(self, listener: Callable[[str | None], None]) -> None:
        self.listeners.append(listener)

    # The service.

    def check(self, feature: str) -> None:
        if self.off is not None:
            raise FeatureUnavailable(feature, self.off)
        if self.breaks is not None:
            raise self.breaks

    def ended_by(self, uid: str) -> str | None:
        return self.ended.get(uid)

    async def replaceable(self, namespace: str | None) -> Pause | None:
        found = self.objects.get((facts.HOME if namespace is None else namespace, API_PAUSE))
        if found is not None and found.deleting:
            raise Refused("it is being deleted")
        return found

    async def set_pause(self, namespace: str | None, wanted: Pause) -> PauseWrite:
        self.check("pauses")
        where = facts.HOME if namespace is None else namespace
        before = await self.replaceable(namespace)
        written = replace(wanted, id=ObjectId(where, API_PAUSE, "made", "1"), verified=True)
        self.add(written)
        return PauseWrite(before, written)

    async def end_pause(self, namespace: str | None, name: str, *, by: str) -> Pause | None:
        self.check("pauses")
        self.enders.append(by)
        where = facts.HOME if namespace is None else namespace
        found = self.objects.pop((where, name), None)
        if found is not None:
            self.ended[found.id.uid] = by
        self.tell(where)
        return found

    async def delete_request(self, request: ScaleRequest, *, by: str) -> bool:
        self.check("scalerequests")
        self.enders.append(by)
        self.ended[request.id.uid] = by
        there = self.orders.pop(request.id.uid, None) is not None
        self.tell(request.id.namespace)
        return there


class Order(NamedTuple):
    """What somebody asked a scaling run for."""

    namespace: str
    spec: ScaleSpec
    if_match: str | None = None


@dataclass
class FakeFlows:
    """Operations in memory; each that is begun stays Running until it is cancelled."""

    known: dict[str, ScalingRunStatus] = field(default_factory=dict)
    breaks: Exception | None = None
    """Raised by each method that acts."""
    orders: list[Order] = field(default_factory=list)
    probed: list[str] = field(default_factory=list)

    def add(self, *operations: ScalingRunStatus) -> None:
        self.known |= {each.id: each for each in operations}

    def operations(self) -> list[ScalingRunStatus]:
        return list(self.known.values())

    def operation(self, name: str) -> ScalingRunStatus | None:
        if isinstance(self.breaks, Refused):
            raise self.breaks
        return self.known.get(name)

    async def plan(
        self, namespace: str, spec: ScaleSpec, *, if_match: str | None = None
    ) -> ScalingPlan:
        self._act()
        return ScalingPlan(namespace, spec.direction, (), '"all"')

    async def begin(
        self, namespace: str, spec: ScaleSpec, *, if_match: str | None = None
    ) -> ScalingRunStatus:
        self._act()
        self.orders.append(Order(namespace, spec, if_match))
        begun = facts.run(
            f"op-{len(self.known) + 1}",
            namespace=namespace,
            direction=spec.direction,
            reason=spec.reason,
            author=spec.author,
            forced=spec.force,
            started=facts.NOW,
            hold_until=facts.NOW + spec.hold,
        )
        self.add(begun)
        return begun

    async def cancel(self, name: str, *, by: str) -> ScalingRunStatus:
        self._act()
        self.known[name] = replace(
            self.known[name], phase=OperationPhase.CANCELLED, ended=facts.NOW
        )
        return self.known[name]

    def probe_now(self, namespace: str) -> float:
        self._act()
        self.probed.append(namespace)
        return facts.NOW + 1

    def _act(self) -> None:
        if self.breaks is not None:
            raise self.breaks


@dataclass
class FakeResources:
    """The dependents of shoots, in memory."""

    known: dict[str, dict[ResourceRef, WorkloadView | None]] = field(default_factory=dict)
    breaks: Exception | None = None
    asked: list[IgnoreRequest] = field(default_factory=list)

    async def live(self, namespace: str) -> dict[ResourceRef, WorkloadView | None]:
        if self.breaks is not None:
            raise self.breaks
        return self.known.get(namespace, dict.fromkeys((facts.KCM, facts.MCM, facts.CA)))

    async def set_ignored(self, order: IgnoreRequest) -> tuple[WorkloadView, WorkloadView]:
        self.asked.append(order)
        if self.breaks is not None:
            raise self.breaks
        before = self.known.get(order.namespace, {}).get(order.ref)
        if before is None:
            raise NotFound(f"{order.ref} does not exist")
        kept = {k: v for k, v in before.annotations.items() if k != ann.IGNORE_SCALING}
        added = {ann.IGNORE_SCALING: "true"} if order.ignored else {}
        after = replace(before, annotations=kept | added)
        if order.dry_run:
            return before, after
        self.known[order.namespace][order.ref] = after
        return before, after


@dataclass
class FakeAuthority:
    """Lets everyone do everything but `forbidden`, and remembers who asked; raises `refuses` where there is one."""

    refuses: Exception | None = None
    forbidden: set[Call] = field(default_factory=set)
    asked: list[tuple[str, Call, str]] = field(default_factory=list)

    async def check(
        self, caller: Caller, call: Call, namespace: str = "", *, again: bool = False
    ) -> None:
        self.asked.append((caller.name, call, namespace))
        if self.refuses is not None:
            raise self.refuses
        if call in self.forbidden:
            raise Problem(ProblemType.FORBIDDEN, f"may not {call.verb} {call.resource}")

    async def may(self, caller: Caller, call: Call, namespace: str = "") -> bool:
        return self.refuses is None and call not in self.forbidden


@dataclass
class FakeConfigured:
    """What the operator asked for."""

    settings: ServiceSettings = field(default_factory=ServiceSettings)
    prober: ProberPolicy | None = facts.POLICY
    weeder: weeding.WeederPolicy | None = None


@dataclass
class FakeLeader:
    leading: bool
    leader_identity: str | None
    address: str | None = None


@dataclass
class FakeProcess:
    version: str = "1.2.3"
    identity: str = "dwd-7f9"
    started_at: float = facts.NOW - 3600
    dry_run: bool = False
    loops: tuple[Loop, ...] = (Loop.PROBER,)
    leading: bool = True
    stands_by: Collection[Loop] = ()
    """Loops that it does not lead, whatever `leading` says."""
    leader_identity: str | None = "dwd-7f9"
    off: dict[str, str] = field(default_factory=dict)
    missing: list[Permission] = field(default_factory=list)
    warnings: list[ConfigWarning] = field(default_factory=list)
    unconfigured: list[str] = field(default_factory=list)
    empty_selectors: list[str] = field(default_factory=list)
    configured: FakeConfigured = field(default_factory=FakeConfigured)
    peer_url: str | None = None
    time: float = facts.NOW

    when_asked_to_wait: Callable[[], None] = lambda: None

    def now(self):
        return self.time

    async def sleep(self, seconds):
        self.time += seconds
        self.when_asked_to_wait()
        await asyncio.sleep(0)  # others in the loop have their turn, as with a real clock

    @property
    def leaders(self):
        return {
            loop: FakeLeader(self.leading and loop not in self.stands_by, self.leader_identity)
            for loop in self.loops
        }

    def features_off(self):
        return self.off

    def missing_permissions(self):
        return self.missing

    def config_warnings(self):
        return self.warnings

    def found_unconfigured(self):
        return self.unconfigured

    def selectors_without_pods(self):
        return self.empty_selectors


def context(shoots: Any = None, process: Any = None, weeders: Any = None, **more: Any) -> Context:
    """What the API is given; what is left out is empty.

    Args:
        shoots: of the prober.
        process: what runs where.
        weeders: of the weeder.
        more: `overrides`, `flows`, `resources`, `endpoints`, `authority`: the fakes above; `audit`: an `AuditLog`;
            `policy`: of the prober.
    """
    overrides: Any = more.get("overrides") or FakeOverrides()
    scaling_runs: Any = more.get("scaling_runs") or FakeFlows()
    resources: Any = more.get("resources") or FakeResources()
    endpoints: Any = more.get("endpoints") or FakeEndpoints()
    authority: Any = more.get("authority") or FakeAuthority()
    process, weeders = process or FakeProcess(), weeders or FakeWeeders()
    shoots = shoots or FakeShoots()
    return Context(
        process,
        overrides,
        overrides,
        authority,
        more.get("audit") or AuditLog(lambda: facts.NOW),
        ProberView(
            shoots,
            shoots.past,
            more.get("policy") or facts.POLICY,
            overrides,
            scaling_runs,
            resources,
            endpoints,
        ),
        weeders,
    )


async def unused(*_: object) -> Any:
    """An application, or an end of a connection, that nobody may come to."""
    raise AssertionError


def type_of(answer: Any) -> str:
    """The type of the problem that an answer is, without what all have in common."""
    found: str = answer.json()["type"]
    return found.removeprefix("urn:dependency-watchdog:problem:")


TESTER = Caller("tester", Role.ADMIN)


class Identified:
    """Around an application: each request is made by `caller`."""

    def __init__(self, app: ASGIApp, caller: Caller = TESTER) -> None:
        self._app = app
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.setdefault("state", {})["caller"] = self._caller
        await self._app(scope, receive, send)


def application(
    given: Context | None = None,
    *,
    caller: Caller = TESTER,
    authentication: Middleware | None = None,
    metrics: Metrics | None = None,
    health: Health | None = None,
    now: Callable[[], float] = time.monotonic,
    **more: Any,
) -> FastAPI:
    """The application of the API's port; without an `authentication`, every request to it is made by `caller`."""
    return create_api(
        given or context(),
        health=health or Health(),
        metrics=metrics or Metrics(),
        authentication=authentication or partial(Identified, caller=caller),
        now=now,
        **more,
    )


def populate(fakes: Any) -> None:
    """All is well, and there is a little of everything; pauses of kubectl have the name of a resource."""
    fakes.process.loops = tuple(Loop)
    fakes.shoots.add(facts.healthy(), facts.protected("shoot--b"), facts.not_probed("shoot--c"))
    for of in (facts.NAMESPACE, facts.HOME):
        fakes.overrides.add(facts.pause(of=of), facts.pause(of=of, name=facts.KCM.name))
    fakes.overrides.add(facts.request())
    fakes.weeders.add(facts.service())
    fakes.weeders.served = {facts.NAMESPACE}
    fakes.scaling_runs.add(facts.run(author="bob"), facts.run("op-2", trigger=Trigger.AUTO))
    fakes.resources.known[facts.NAMESPACE] = {facts.KCM: facts.workload(facts.KCM)}


class World:
    """All fakes together, populated."""

    def __init__(self) -> None:
        self.process = FakeProcess()
        self.shoots, self.weeders = FakeShoots(), FakeWeeders()
        self.scaling_runs, self.resources = FakeFlows(), FakeResources()
        self.overrides, self.authority = FakeOverrides(), FakeAuthority()
        populate(self)

    def context(self) -> Context:
        return context(**vars(self))
