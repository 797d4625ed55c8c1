"""Pages without a snapshot: a token names the sort key of the last item, and the next page begins behind it.

An item that keeps its place is returned exactly once, whatever comes, goes or moves meanwhile.
"""

import base64
import binascii
import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
_MAX_TOKEN: Final = 1_024


class PageQuery(BaseModel):
    """Which part of a list; an unknown parameter is an error, so that a misspelt filter is not taken for none."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        DEFAULT_LIMIT, description="The most items to return."
    )
    token: str | None = Field(
        None, alias="continue", description="`metadata.continue` of the page before this one."
    )


class Key(NamedTuple):
    """Where an item stands: lowest first; `name` tells items of the same rank apart."""

    rank: float
    name: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list."""

    items: list[T]
    total: int
    """Of all pages."""
    token: str | None
    """For the next page; None on the last."""


class TokenRefused(ValueError):
    """A page token that this list did not make."""


def cut(
    items: Iterable[T], key: Callable[[T], Key], order: str, limit: int, token: str | None
) -> Page[T]:
    """The page of `items` behind `token`.

    Args:
        items: all items; no two with the same key.
        key: where an item stands in this order.
        order: the name of the order; a token of another one is refused.
        limit: the most items on the page.
        token: of the page before; None for the first page.

    Raises:
        TokenRefused: the token is none of this order.
    """
    after = None if token is None else _read(token, order)
    placed = [(key(item), item) for item in items]
    behind = placed if after is None else [each for each in placed if each[0] > after]
    chosen = heapq.nsmallest(limit, behind, key=lambda each: each[0])
    more = len(behind) > len(chosen)
    following = _write(chosen[-1][0], order) if more and chosen else None
    return Page([item for _, item in chosen], len(placed), following)


def _write(key: Key, order: str) -> str:
    packed = msgspec.json.encode((order, key.rank, key.name))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read(token: str, order: str) -> Key:
    if len(token) > _MAX_TOKEN:
        raise TokenRefused("too long")
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        made_for, rank, name = msgspec.json.decode(packed, type=tuple[str, float, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise TokenRefused("not readable") from error
    if made_for != order or not math.isfinite(rank):
        raise TokenRefused("made for another list or order")
    return Key(rank, name)
