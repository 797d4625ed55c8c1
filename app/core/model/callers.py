"""Callers of the API, and the permissions that their requests need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

AUDIENCE: Final = "dependency-watchdog"
"""Audience that a caller's token must be issued for, so that the token is worth nothing elsewhere (threat T14)."""
GROUP: Final = "dependency-watchdog.gardener.cloud"
"""API group of the virtual resources that SubjectAccessReviews name."""
CLAIMED_USER: Final = "Dwd-Claimed-User"
"""A header in which a client that uses a shared account claims who uses it (percent-encoded); shown, never trusted."""


class Role(StrEnum):
    """The role of a caller from a token file; each role includes the permissions of the previous one."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    """The name shown as author in audit records and overrides."""
    role: Role | None = None
    """None: a SubjectAccessReview in the seed decides on each request."""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Access:
    """The permission that a request needs, in the terms of a SubjectAccessReview."""

    verb: str
    resource: str
    """With its subresource, such as `shoots/pause`; in the watchdog's API group. Empty if `path` is set."""
    namespace: str = ""
    """The control-plane namespace; empty for all."""
    path: str = ""
    """A nonResourceURL, in place of a resource."""
