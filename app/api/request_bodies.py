"""The bodies of requests (docs/api.md): reasons of one printable line, durations with limits; plain pydantic.

What they are answered with is in `app.api.schemas`.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

from app.core import redaction
from app.core.config.values import LogLevel
from app.core.model.instants import format_duration, parse_duration
from app.core.model.overrides import LONGEST, Scope
from app.core.model.workloads import Direction

LONGEST_REASON: Final = 300


def _one_line(text: str) -> str:
    """One printable line without what looks like a secret, as reasons are shown to many readers (threat T12)."""
    return redaction.one_line(text, LONGEST_REASON)


def _some_line(text: str) -> str:
    line = _one_line(text)
    if not line:
        raise ValueError("must have something that can be printed")
    return line


def _seconds(text: str) -> str:
    seconds = parse_duration(text)
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"must be more than 0s and at most {format_duration(LONGEST)}")
    return text


_WHY: Final = "The reason, for readers of the audit, the history and Events."
Reason = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_REASON,
        json_schema_extra={"pattern": r"\S"},  # `_some_line` says it in words
        description=_WHY,
        examples=["load balancer is being replaced"],
    ),
    AfterValidator(_some_line),
]
"""A reason; reduced to one printable line, without what looks like a secret."""
Remark = Annotated[
    str,
    Field(
        max_length=LONGEST_REASON,
        description=_WHY,
        examples=["kube-scheduler hangs in CrashLoopBackOff"],
    ),
    AfterValidator(_one_line),
]
"""An optional reason."""
Length = Annotated[
    str,
    Field(
        max_length=50,
        description="A Go duration, more than 0s and at most 24h.",
        examples=["30m", "1h30m"],
    ),
    AfterValidator(_seconds),
]
"""Duration of a pause or hold."""
DryRun = Annotated[StrictBool, Field(description="Only show what would change; write nothing.")]


class Order(BaseModel):
    """The base of all bodies: an unknown field is an error, so that a misspelt one is not silently ignored.

    A field has its name of the contract only: `dryRun`, not `dry_run`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, frozen=True, extra="forbid", use_attribute_docstrings=True
    )


class PauseOrder(Order):
    """Pause a shoot, or all of them."""

    reason: Reason
    duration: Length = Field(
        "1h",
        description="A Go duration, more than 0s and at most 24h; then the verdicts act again.",
    )
    scope: Scope = Scope.ALL
    """all: no scaling in either direction, no weeding. scaleDown: no scaling down."""
    force: StrictBool = False
    """Even if controllers are at 0, and would stay there (scope all)."""
    dry_run: DryRun = False


class IgnoreOrder(Order):
    """Set ignore-scaling on a resource."""

    reason: Reason
    force: StrictBool = False
    """Even if it is at 0, and would stay there."""
    dry_run: DryRun = False


class ScaleOrder(Order):
    """Scale the dependents of a shoot."""

    direction: Direction
    reason: Reason
    hold: Length = Field(
        "30m",
        description="How long the automatic verdicts are not acted on after its end: a Go duration, more than 0s and "
        "at most 24h.",
    )
    dry_run: StrictBool = False
    """Only show the plan; write nothing."""
    force: StrictBool = False
    """Even if the shoot is not probed; and up even if the verdict would be ScaleDown."""


class WeedOrder(Order):
    """Begin a recovery by hand."""

    reason: Remark = ""
    force: StrictBool = False
    """Despite the pause of scope `all` that covers the namespace now."""
    dry_run: StrictBool = False
    """Only show what would begin; begin nothing."""


class LogLevelOrder(Order):
    """A log level to set."""

    level: LogLevel
    """The least severe messages to log."""
