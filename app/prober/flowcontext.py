"""What the resources of a flow share, and the words for how it ends."""

from dataclasses import dataclass
from enum import StrEnum

from app.core.model.workloads import Direction
from app.prober.consent import Consent
from app.prober.environment import Environment
from app.prober.scalememory import ScaleMemory


class Result(StrEnum):
    """How it ended for one resource, as the metrics name it."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DRY_RUN = "dry-run"


@dataclass(frozen=True, slots=True)
class FlowContext:
    """What all resources of a flow share."""

    environment: Environment
    namespace: str
    direction: Direction
    consent: Consent
    memory: ScaleMemory


@dataclass(frozen=True, slots=True)
class FlowResult:
    """How a flow ended."""

    direction: Direction
    started: float
    ended: float
    failed: tuple[str, ...]
    """What failed, one line for each resource."""
    cancelled: str | None
    """Why it was ended before its time."""
