"""What is asked of an API server, what its answer may cost, and what came back."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from app.core.kube import failures
from app.core.kube.byte_budget import MAX_BODY
from app.core.kube.failures import Asked

T = TypeVar("T")
Decode = Callable[[bytes | bytearray], T]
"""Makes a value of an answer."""
Decoding = Callable[[bytes | bytearray], T | Generator[None, None, T]]
"""The same, or in steps where it takes longer."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Limits:
    """What an answer may cost: seconds and bytes."""

    first_byte_reused: float = 3.0
    first_byte_new: float = 5.0
    body: int = MAX_BODY


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask."""

    asked: Asked
    path: str
    within: float
    """Seconds for all of it, a second attempt included; of a watch, for its beginning."""
    params: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: object = field(default=None, repr=False)
    """JSON data; in no message, as it may hold a token."""
    secret: bool = False
    """Whether the body holds one: the server's own words, which may repeat it, are in no message then."""
    content_type: str = JSON
    accept: str = JSON
    most: int = MAX_BODY
    """Bytes that the answer may have, where that is less than the limit of the channel."""
    again: bool = False
    """Asked again and again: its URL is kept."""


class Reply(NamedTuple, Generic[T]):
    """What came back."""

    value: T
    sent: float
    """When the request that brought it was sent."""
    received: float
    """When the last of it had arrived."""
    dated: str | None = None
    """The header `Date`."""

    @property
    def date(self) -> float | None:
        """What the server's clock said, in whole seconds; read only where somebody asks, as few do."""
        return failures.http_date(self.dated)
