"""Who calls the API, and what they ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a caller of a token file may do; each role may do what the one before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose identity was verified."""

    name: str
    """As audit records and overrides name the author."""
    role: Role | None = None
    """None: each call is reviewed by the seed."""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Access:
    """What a call does, as a SubjectAccessReview asks for it."""

    verb: str
    resource: str
    """With its subresource: `shoots/pause`; in the group of the watchdog.  Empty where `path` is asked for."""
    namespace: str = ""
    """The control plane; empty: all."""
    path: str = ""
    """A nonResourceURL instead."""
