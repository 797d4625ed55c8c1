"""What the workers have found out: one entry for each worker, and a stream of what changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.core.model.endpoints import Effect, EndpointProbe, ProbeOutcome, ProbeType
from app.core.reporting.notices import Notice, NoticeBus, NoticeKind, Severity
from app.prober.rules.endpoints import CachedResult, Waiting
from app.prober.rules.gates import GateReason, GateState


class ProbeTarget(NamedTuple):
    """Who is asked: a host, or a container of a pod."""

    host: str = ""
    uid: str = ""
    """Of the pod: another pod of the same name is another target."""
    pod: str = ""
    container: str = ""

    def __str__(self) -> str:
        return self.host or f"{self.pod}/{self.container}"


class WorkerKey(NamedTuple):
    """A worker: one probe on one target."""

    namespace: str
    probe: str
    target: ProbeTarget


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What is known of one target by one probe."""

    result: CachedResult
    counted: bool
    """Whether runs said so, as often in a row as it takes."""
    since: float
    result_at: float | None = None
    """When the last run that gave a result ended."""
    message: str = ""
    """What that run brought, in one line."""

    def same(self, other: "TargetResult | None") -> bool:
        """Whether the other says the same, whenever it does."""
        return other is not None and (self.result, self.counted) == (other.result, other.counted)


class ResultChange(NamedTuple):
    """A result that is another one now, was found for the first time, or went with its worker."""

    key: WorkerKey
    before: TargetResult | None
    after: TargetResult | None


Listener = Callable[[ResultChange], None]


class Results:
    """The cache; each entry belongs to one worker and goes with it."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[WorkerKey, TargetResult]] = {}
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """`listener` is called with each change, after it has been made."""
        self._listeners.append(listener)

    def get(self, key: WorkerKey) -> TargetResult | None:
        """What is known by this worker; None before it has a container, and after it has ended."""
        return self._entries.get(key.namespace, {}).get(key)

    def of(self, namespace: str) -> dict[WorkerKey, TargetResult]:
        """All of one namespace."""
        return dict(self._entries.get(namespace, {}))

    def put(self, key: WorkerKey, entry: TargetResult) -> None:
        """Notes what is known now; listeners hear of it where it says something else than before."""
        entries = self._entries.setdefault(key.namespace, {})
        before = entries.get(key)
        entries[key] = entry
        if not entry.same(before):
            self._tell(ResultChange(key, before, entry))

    def remove(self, key: WorkerKey) -> None:
        """The worker has ended."""
        entries = self._entries.get(key.namespace, {})
        before = entries.pop(key, None)
        if not entries:
            self._entries.pop(key.namespace, None)
        if before is not None:
            self._tell(ResultChange(key, before, None))

    def _tell(self, change: ResultChange) -> None:
        for listener in self._listeners:
            listener(change)


# What is told of endpoint probes: log, history and metrics hear it.


class ResultNotices:
    """Publishes on the board."""

    def __init__(self, board: NoticeBus) -> None:
        self._board = board

    def counted(
        self, probe: EndpointProbe, key: WorkerKey, entry: TargetResult, *, first: bool
    ) -> None:
        """A result counts that is another one than the last that did; `first`: none did before."""
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
        self._board.publish(notice)

    def gate(
        self, namespace: str, reason: str, probe: EndpointProbe, gate: GateState, at: float
    ) -> None:
        """A gate has closed or opened, or is open for want of knowledge, or no longer."""
        troubling = gate.closed or gate.reason.blind
        severity = Severity.WARNING if troubling else Severity.INFO
        numbers = {"probe": probe.name, "gate": gate.reason}
        notice = Notice(
            NoticeKind.LIFECYCLE, namespace, at, reason, gate.message, severity, numbers=numbers
        )
        self._board.publish(notice)

    def crashed(self, key: WorkerKey, error: Exception, at: float) -> None:
        """A worker failed unexpectedly and will be started again."""
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
        self._board.publish(notice)


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
    """Unknown where there is no entry yet."""
    counted: bool
    """Whether runs said so; not so of an initial value, nor of a container that is not running."""
    since: float | None
    """When it became this result, an instant."""
    last_run: float | None = None
    """When the last run ended, whatever it brought."""
    last_outcome: ProbeOutcome | None = None
    message: str = ""
    """What the last run brought, in one line."""
    run: int = 0
    """How many results in a row were the same as the last."""
    waiting: Waiting | None = None
    """Why it was not run in this period; None where it was."""
    gate: GateReason | None = None
    """Of the whole probe in this namespace: Failing is closed, all else is open; None where it is no gate."""

    @property
    def closed(self) -> bool | None:
        """Whether the gate that it belongs to is closed; None where it is no gate."""
        return None if self.gate is None else self.gate is GateReason.FAILING


@dataclass(frozen=True, slots=True)
class GateView:
    """The gate of one probe in one namespace; it is there without any target, too."""

    name: str
    closed: bool
    reason: GateReason
    message: str
    since: float
    """When it came to be closed, open, or open for want of knowledge: an instant."""
