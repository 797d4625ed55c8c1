"""What can be seen of endpoint probes from outside: the API, the metrics and the status read it."""

from dataclasses import dataclass

from app.core.model.endpoints import Effect, Outcome, ProbeType
from app.prober.endpoints.results import Target
from app.prober.rules.endpoints import Result, Waiting
from app.prober.rules.gates import GateReason


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One probe on one target, at one instant."""

    name: str
    type: ProbeType
    effect: Effect
    target: Target
    """`str(target)` is the host, or `pod/container`."""
    result: Result
    """Unknown where there is no entry yet."""
    counted: bool
    """Whether runs said so; not so of an initial value, nor of a container that is not running."""
    since: float | None
    """When it became this result, an instant."""
    last_run: float | None = None
    """When the last run ended, whatever it brought."""
    last_outcome: Outcome | None = None
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
