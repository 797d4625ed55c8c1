"""Dependents: the resources that are scaled, their annotations, and patches of them."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

# The four annotations that the watchdog shares with Gardener (rules 4.3).

PREFIX: Final = "dependency-watchdog.gardener.cloud/"

REPLICAS: Final = PREFIX + "replicas"
"""The *saved count*: the number of replicas to restore."""

MELTDOWN: Final = PREFIX + "meltdown-protection-active"
"""The *meltdown key*: only its presence matters; gardenlet leaves the replicas alone while it exists."""

SINCE: Final = PREFIX + "meltdown-protection-since"
"""When protection began, in RFC 3339."""

IGNORE_SCALING: Final = PREFIX + "ignore-scaling"
"""A person's decision that this resource must not be scaled."""

OURS: Final = frozenset({REPLICAS, MELTDOWN, SINCE, IGNORE_SCALING})

_COUNT: Final = re.compile(r"[1-9][0-9]{0,9}")
_MAX_COUNT: Final = 2**31 - 1
_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})


def go_bool(text: str) -> bool | None:
    """Reads a boolean as Go's `strconv.ParseBool` does; returns None where that fails."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


class Ignore(StrEnum):
    """The meaning of the ignore-scaling annotation."""

    NO = "No"
    YES = "Yes"
    INVALID = "Invalid"
    """Neither true nor false to Go's ParseBool: the resource is scaled, with a warning."""


def ignore_scaling(annotations: Mapping[str, str]) -> Ignore:
    """Reads ignore-scaling as Go's ParseBool does."""
    match go_bool(annotations.get(IGNORE_SCALING, "false")):
        case None:
            return Ignore.INVALID
        case ignored:
            return Ignore.YES if ignored else Ignore.NO


def saved_count(annotations: Mapping[str, str]) -> int | None:
    """Returns the saved count; None if it is absent or invalid."""
    value = annotations.get(REPLICAS)
    if value is None or not _COUNT.fullmatch(value):
        return None
    count = int(value)
    return count if count <= _MAX_COUNT else None


def saved_count_is_invalid(annotations: Mapping[str, str]) -> bool:
    """Returns whether the annotation exists but is not a valid count."""
    return REPLICAS in annotations and saved_count(annotations) is None


def protected(annotations: Mapping[str, str]) -> bool:
    """Returns whether the meltdown key exists; its value does not matter."""
    return MELTDOWN in annotations


ONE_PATCH_KINDS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of `apps/v1` whose annotations and `spec.replicas` are changed in one merge patch of the object itself."""


class ResourceRef(NamedTuple):
    """Identifies a resource in a control-plane namespace; a tuple, because every probe hashes it dozens of times."""

    api_version: str
    kind: str
    name: str

    @property
    def has_replicas(self) -> bool:
        """Whether `spec.replicas` of the object itself is scaled, rather than its `scale` subresource."""
        return self.api_version == "apps/v1" and self.kind in ONE_PATCH_KINDS

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Direction(StrEnum):
    """The direction of a scaling run."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A dependent as it is in the seed."""

    ref: ResourceRef
    namespace: str
    uid: str
    resource_version: str
    replicas: int | None
    """`spec.replicas`; None if the kind does not have it and `scale` was not read."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only those in `OURS`."""
    ready: int | None = 0
    """`status.readyReplicas`; None if the kind does not have it."""
    current: int | None = 0
    """`status.replicas`; None if the kind does not have it."""
    generation: int = 0
    observed_generation: int | None = 0
    """None if the kind does not have it."""

    @property
    def protected(self) -> bool:
        """Whether it has the meltdown key."""
        return protected(self.annotations)

    @property
    def observed(self) -> bool:
        """Whether its controller has seen the latest spec."""
        return self.observed_generation is None or self.observed_generation >= self.generation


@dataclass(frozen=True, slots=True)
class ScaleView:
    """A `scale` subresource."""

    resource_version: str
    replicas: int
    current: int | None


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of a dependent, as data."""

    resource_version: str
    """The version that the decision is based on: if the object is newer, the write fails with a conflict."""
    replicas: int | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """None removes a key."""

    def body(self) -> dict[str, object]:
        """Returns the merge patch as JSON data."""
        metadata: dict[str, object] = {"resourceVersion": self.resource_version}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        body: dict[str, object] = {"metadata": metadata}
        if self.replicas is not None:
            body["spec"] = {"replicas": self.replicas}
        return body


# ETags of a shoot's dependents, and what `If-Match` asks for (RFC 9110). An ETag covers what a decision about scaling
# rests on: which object it is, how many replicas its spec asks for, and our annotations. Status is not part of it:
# pods that become ready make no plan wrong.

# Digits of an ETag: 80 bits, far more than needed to avoid collisions among the few resources of a shoot.
_HEX: Final = 20
# One element of the list; the RFC allows empty ones.
_TAG: Final = re.compile(r'[ \t]*(?:(W/)?("[\x21\x23-\x7e\x80-\xff]*"))?[ \t]*(?:,|\Z)')


def resource_etag(view: WorkloadView) -> str:
    """Returns the strong ETag of one dependent, quotes included."""
    return _tag((view.uid, view.replicas, sorted(view.annotations.items())))


def list_etag(views: Mapping[ResourceRef, WorkloadView | None]) -> str:
    """Returns the strong ETag of all dependents of a shoot, in any order; None is one that does not exist."""
    found = ((ref, resource_etag(view)) for ref, view in views.items() if view is not None)
    return _tag(sorted(found))


def matches(if_match: str, *current: str) -> bool:
    """Returns whether a write with the header `If-Match: if_match` may proceed, given the current ETags.

    A weak ETag matches nothing, nor does a malformed header: what the caller saw is then unknown. `*` only requires
    that something exists.
    """
    if if_match.strip(" \t") == "*":
        return bool(current)
    asked = tuple(_tags(if_match))
    return None not in asked and not set(asked).isdisjoint(current)


def _tags(text: str) -> Iterator[str | None]:
    """Returns the strong ETags of a list, quotes included; None if it is malformed."""
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
