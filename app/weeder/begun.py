"""What a recovery begins with."""

from dataclasses import dataclass

from app.core.model.weeding import Asked, Cause, ServiceKey


@dataclass(frozen=True, slots=True)
class Begun:
    """Which service came back, when, and how long it is weeded for."""

    id: int
    """Counts the recoveries of this process."""
    key: ServiceKey
    cause: Cause
    began: float
    due: float
    """When it begins to weed; later than `began` where there were too many before it."""
    until: float
    asked: Asked | None = None
    """Who asked for it; None where nobody had to."""
