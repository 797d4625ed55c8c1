"""The results of endpoint probes: a cache with one entry for each worker, its listeners, and the notices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.core.model.endpoints import (
    CachedResult,
    Effect,
    EndpointProbeSpec,
    GateReason,
    ProbeOutcome,
    ProbeType,
    Waiting,
)
from app.core.model.probing import NoticeKind
from app.core.reporting.notices import Notice, NoticeBus, Severity
from app.prober.rules.gates import GateVerdict


class ProbeTarget(NamedTuple):
    """The target of a probe: a host, or a container of a pod."""

    host: str = ""
    uid: str = ""
    """The uid of the pod: another pod of the same name is another target."""
    pod: str = ""
    container: str = ""

    def __str__(self) -> str:
        return self.host or f"{self.pod}/{self.container}"


class WorkerKey(NamedTuple):
    """Identifies a worker: one probe on one target."""

    namespace: str
    probe: str
    target: ProbeTarget


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What one probe has found out about one target."""

    result: CachedResult
    counted: bool
    """Whether as many runs in a row as the threshold asks for gave this result."""
    since: float
    result_at: float | None = None
    """When the last run that gave a result ended."""
    message: str = ""
    """The message of that run, in one line."""

    def same(self, other: "TargetResult | None") -> bool:
        """Whether result and `counted` are the same, whatever the times and messages."""
        return other is not None and (self.result, self.counted) == (other.result, other.counted)


class ResultChange(NamedTuple):
    """A result that has changed; `before` is None for a new entry, `after` for one that was removed."""

    key: WorkerKey
    before: TargetResult | None
    after: TargetResult | None


Listener = Callable[[ResultChange], None]


class Results:
    """The results cache; each entry belongs to one worker, and is removed with it."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[WorkerKey, TargetResult]] = {}
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Calls `listener` with each change, after it has been made."""
        self._listeners.append(listener)

    def get(self, key: WorkerKey) -> TargetResult | None:
        """The result of this worker; None before it has a container, and after it has ended."""
        return self._entries.get(key.namespace, {}).get(key)

    def of(self, namespace: str) -> dict[WorkerKey, TargetResult]:
        """A copy of all entries of one namespace."""
        return dict(self._entries.get(namespace, {}))

    def put(self, key: WorkerKey, entry: TargetResult) -> None:
        """Sets the entry of a worker; listeners are called if it is not the `same` as before."""
        entries = self._entries.setdefault(key.namespace, {})
        before = entries.get(key)
        entries[key] = entry
        if not entry.same(before):
            self._tell(ResultChange(key, before, entry))

    def remove(self, key: WorkerKey) -> None:
        """Removes the entry of a worker that has ended."""
        entries = self._entries.get(key.namespace, {})
        before = entries.pop(key, None)
        if not entries:
            self._entries.pop(key.namespace, None)
        if before is not None:
            self._tell(ResultChange(key, before, None))

    def _tell(self, change: ResultChange) -> None:
        for listener in self._listeners:
            listener(change)


class ResultNotices:
    """Publishes notices of endpoint probes, for log, history and metrics."""

    def __init__(self, notice_bus: NoticeBus) -> None:
        self._notice_bus = notice_bus

    def counted(
        self, probe: EndpointProbeSpec, key: WorkerKey, entry: TargetResult, *, first: bool
    ) -> None:
        """Reports a counted result that differs from the last counted one; `first` if there was none."""
        failed = entry.result is CachedResult.FAILURE
        severity = Severity.DEBUG if first else Severity.INFO
        notice = Notice(
            NoticeKind.LIFECYCLE,
            key.namespace,
            entry.since,
            "EndpointProbeFailed" if failed else "EndpointProbeSucceeded",
            f"{probe.type} probe {probe.name} of {key.target}: {entry.result}: {entry.message}",
            Severity.WARNING if failed else severity,
            numbers={"probe": probe.name, "target": str(key.target), "result": entry.result},
        )
        self._notice_bus.publish(notice)

    def gate(
        self, namespace: str, reason: str, probe: EndpointProbeSpec, gate: GateVerdict, at: float
    ) -> None:
        """Reports that a gate has closed or opened, or has begun or ceased to be open for want of knowledge."""
        troubling = gate.closed or gate.reason.blind
        severity = Severity.WARNING if troubling else Severity.INFO
        numbers = {"probe": probe.name, "gate": gate.reason}
        notice = Notice(
            NoticeKind.LIFECYCLE, namespace, at, reason, gate.message, severity, numbers=numbers
        )
        self._notice_bus.publish(notice)

    def crashed(self, key: WorkerKey, error: Exception, at: float) -> None:
        """Reports that a worker failed unexpectedly, and will be started again."""
        what = f"the worker of probe {key.probe} on {key.target}"
        text = f"{what} failed and is started again: {type(error).__name__}"
        numbers = {"probe": key.probe, "target": str(key.target)}
        notice = Notice(
            NoticeKind.LIFECYCLE,
            key.namespace,
            at,
            "RunnerFailed",
            text,
            Severity.ERROR,
            numbers=numbers,
        )
        self._notice_bus.publish(notice)


# What can be seen of endpoint probes from outside: the API, the metrics and the status read it.


@dataclass(frozen=True, slots=True)
class EndpointResultView:
    """One probe on one target, at one instant."""

    name: str
    type: ProbeType
    effect: Effect
    target: ProbeTarget
    """`str(target)` is the host, or `pod/container`."""
    result: CachedResult
    """Unknown if there is no entry in the cache yet."""
    counted: bool
    """Whether runs gave this result; False for an initial value, and for a container that is not running."""
    since: float | None
    """The instant at which the result became what it is."""
    last_run: float | None = None
    """When the last run ended, whatever its outcome."""
    last_outcome: ProbeOutcome | None = None
    message: str = ""
    """The message of the last run, in one line."""
    run: int = 0
    """How many results in a row were the same as the last."""
    waiting: Waiting | None = None
    """Why the probe was not run in this period; None if it was."""
    gate: GateReason | None = None
    """The state of the probe's gate in this namespace: Failing is closed, all else is open; None if it is no gate."""

    @property
    def closed(self) -> bool | None:
        """Whether the probe's gate is closed; None if the probe is no gate."""
        return None if self.gate is None else self.gate is GateReason.FAILING


@dataclass(frozen=True, slots=True)
class GateView:
    """The gate of one probe in one namespace; it exists without any target, too."""

    name: str
    closed: bool
    reason: GateReason
    message: str
    since: float
    """The instant at which it became closed, open, or open for want of knowledge."""
