"""What is told of endpoint probes: log, history and metrics hear it."""

from app.core.model.endpoints import EndpointProbe
from app.core.reporting.notices import Kind, Notice, NoticeBoard, Severity
from app.prober.endpoints.results import Entry, Key
from app.prober.rules.endpoints import Result
from app.prober.rules.gates import Gate


class Teller:
    """Publishes on the board."""

    def __init__(self, board: NoticeBoard) -> None:
        self._board = board

    def counted(self, probe: EndpointProbe, key: Key, entry: Entry, *, first: bool) -> None:
        """A result counts that is another one than the last that did; `first`: none did before."""
        failed = entry.result is Result.FAILURE
        severity = Severity.DEBUG if first else Severity.INFO
        notice = Notice(
            Kind.LIFECYCLE,
            key.namespace,
            entry.since,
            "EndpointProbeFailed" if failed else "EndpointProbeSucceeded",
            f"{probe.type} probe {probe.name} of {key.target}: {entry.result}: {entry.message}",
            Severity.WARNING if failed else severity,
            numbers={"probe": probe.name, "target": str(key.target), "result": entry.result},
        )
        self._board.publish(notice)

    def gate(
        self, namespace: str, reason: str, probe: EndpointProbe, gate: Gate, at: float
    ) -> None:
        """A gate has closed or opened, or is open for want of knowledge, or no longer."""
        troubling = gate.closed or gate.reason.blind
        severity = Severity.WARNING if troubling else Severity.INFO
        numbers = {"probe": probe.name, "gate": gate.reason}
        notice = Notice(
            Kind.LIFECYCLE, namespace, at, reason, gate.message, severity, numbers=numbers
        )
        self._board.publish(notice)

    def crashed(self, key: Key, error: Exception, at: float) -> None:
        """A worker failed unexpectedly and will be started again."""
        what = f"the worker of probe {key.probe} on {key.target}"
        text = f"{what} failed and is started again: {type(error).__name__}"
        numbers = {"probe": key.probe, "target": str(key.target)}
        notice = Notice(
            Kind.LIFECYCLE, key.namespace, at, "RunnerFailed", text, Severity.ERROR, numbers=numbers
        )
        self._board.publish(notice)
