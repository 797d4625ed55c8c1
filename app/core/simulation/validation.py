"""What an API server refuses to keep; pure."""

from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import Invalid

_COUNTS: Final = {
    "Deployment": ("replicas",),
    "StatefulSet": ("replicas",),
    "ReplicaSet": ("replicas",),
    "Lease": ("leaseDurationSeconds", "leaseTransitions"),
}
"""The members of spec that count something, by kind."""
_POSITIVE: Final = frozenset({"leaseDurationSeconds"})
_INT32: Final = 1 << 31


def validate(kind: str, name: str, body: Mapping[str, Any]) -> None:
    """Checks an object before it is kept.

    Raises:
        Invalid: 400 where a value has the wrong type, 422 where it has a wrong value.
    """
    spec = body.get("spec") or {}
    for member in _COUNTS.get(kind, ()):
        value = spec.get(member)
        if value is not None:
            what, least = f'{kind} "{name}"', int(member in _POSITIVE)
            validate_count(what, f"spec.{member}", value, least=least)


def validate_count(what: str, path: str, value: object, *, least: int = 0) -> None:
    """Checks one number.

    Raises:
        Invalid: 400 where it is none of 32 bits, 422 where it is less than `least`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT32 <= value < _INT32:
        shown = type(value).__name__
        raise Invalid(f"{what}: {path}: cannot read {shown} as a 32-bit integer", status=400)
    if value < least:
        raise Invalid(
            f"{what} is invalid: {path}: Invalid value: {value}: must be at least {least}",
            status=422,
        )
