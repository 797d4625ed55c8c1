"""Bases and common types of the schemas: camelCase names, times in RFC 3339, null for a missing value."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core import redaction
from app.core.model.durations import format_duration, parse_duration
from app.core.model.overrides import LONGEST

Time = Annotated[str, Field(description="RFC 3339, UTC", examples=["2026-11-20T14:02:11Z"])]
GoDuration = Annotated[str, Field(description="A Go duration", examples=["30s"])]


class Schema(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


class FieldError(Schema):
    """One bad input of a request."""

    path: str
    message: str


class ProblemDetails(Schema):
    """An error (RFC 9457)."""

    type: str = Field(examples=["urn:dependency-watchdog:problem:not-found"])
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] | None = None


class ListMetadata(Schema):
    """Metadata of a list."""

    total: int
    """Number of items on all pages."""
    continue_: str | None = Field(alias="continue")
    """Token of the next page; null on the last."""


# Bodies of requests: no unknown fields, reasons of one printable line, durations with limits.


LONGEST_REASON: Final = 300


class Order(BaseModel):
    """The base of all bodies: an unknown field is an error, so that a misspelt one is not silently ignored.

    A field has its name of the contract only: `dryRun`, not `dry_run`.
    """

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="forbid")


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


Reason = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_REASON,
        pattern=r"\S",
        description="The reason, for readers of the audit, the history and Events.",
        examples=["load balancer is being replaced"],
    ),
    AfterValidator(_some_line),
]
"""A reason; reduced to one printable line, without what looks like a secret."""
Remark = Annotated[
    str,
    Field(
        max_length=LONGEST_REASON,
        description="The reason, for readers of the audit, the history and Events.",
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
