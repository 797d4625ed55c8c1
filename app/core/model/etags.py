"""ETags of a shoot's dependents, and what `If-Match` asks for (RFC 9110); pure.

An ETag covers what a decision about scaling rests on: which object it is, how many replicas its spec asks for, and our
annotations.  Status is not part of it: pods that become ready make no plan wrong.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from app.core.model.workloads import ResourceRef, WorkloadView

_HEX: Final = 20
"""Digits of an ETag: 80 bits, far more than the few resources of a shoot can collide in."""
_TAG: Final = re.compile(r'[ \t]*(?:(W/)?("[\x21\x23-\x7e\x80-\xff]*"))?[ \t]*(?:,|\Z)')
"""One element of the list; the RFC allows empty ones."""


def resource_etag(view: WorkloadView) -> str:
    """The strong ETag of one dependent, quotes included."""
    return _tag((view.uid, view.replicas, sorted(view.annotations.items())))


def list_etag(views: Mapping[ResourceRef, WorkloadView | None]) -> str:
    """The strong ETag of all dependents of a shoot, in whatever order; None is one that does not exist."""
    found = ((ref, resource_etag(view)) for ref, view in views.items() if view is not None)
    return _tag(sorted(found))


def matches(if_match: str, *current: str) -> bool:
    """Whether a write that asks for `if_match` may go on where the ETags of what is there are `current`.

    A weak ETag matches nothing, nor does a header that is no list of ETags: what the caller saw is not known then.
    `*` asks only that there is something.
    """
    if if_match.strip(" \t") == "*":
        return bool(current)
    asked = tuple(_tags(if_match))
    return None not in asked and not set(asked).isdisjoint(current)


def _tags(text: str) -> Iterator[str | None]:
    """The strong ETags of a list, quotes included; None where it is no list."""
    at = 0
    while at < len(text):
        element = _TAG.match(text, at)
        if element is None:
            yield None
            return
        weak, tag = element.groups()
        if tag is not None and weak is None:
            yield tag
        at = element.end()


def _tag(covered: object) -> str:
    return f'"{hashlib.sha256(msgspec.json.encode(covered)).hexdigest()[:_HEX]}"'
