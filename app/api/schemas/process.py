"""A process, and what is wrong with it."""

from app.api.schemas.base import Schema, Time
from app.api.schemas.overrides import Pause


class Leader(Schema):
    """Who leads a loop."""

    identity: str | None
    address: str | None


class FeatureOff(Schema):
    """A feature that is off."""

    feature: str
    reason: str


class MissingPermission(Schema):
    """A right that is missing."""

    verb: str
    group: str
    resource: str
    name: str | None
    namespace: str | None
    feature: str | None
    """The feature that is off without it; null: needed to protect."""


class ConfigFinding(Schema):
    """Something in flags or file that deserves a look."""

    path: str
    line: int | None
    message: str


class Status(Schema):
    """This process."""

    version: str
    started_at: Time
    role: str
    """`leader` or `standby`."""
    dry_run: bool
    leaders: dict[str, Leader]
    """By loop."""
    counts: dict[str, int] | None
    """Shoots in each state; null on a standby."""
    pause: Pause | None
    """Of all shoots."""
    features_off: list[FeatureOff]
    missing_permissions: list[MissingPermission]
    config_warnings: list[ConfigFinding]
    found_unconfigured: list[str]
    """Objects that carry the meltdown key and are not configured: never written."""
    selectors_without_pods: list[str]
    """Selectors of the weeder that have matched no pod for an hour."""
