"""What all shapes share: camelCase, RFC 3339, null for what has no value."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Time = Annotated[str, Field(description="RFC 3339, UTC", examples=["2026-11-20T14:02:11Z"])]
GoDuration = Annotated[str, Field(description="A Go duration", examples=["30s"])]


class Schema(BaseModel):
    """The base of all shapes."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


class FieldError(Schema):
    """One bad input of a problem."""

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
    """About a list."""

    total: int
    """Of all pages."""
    continue_: str | None = Field(alias="continue")
    """For the next page."""
