"""Defaults and limits of built-in kinds, as an API server applies them before it stores an object; pure."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from app.core.errors import Invalid

SIZED: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of `apps/v1` that have `spec.replicas`."""
SIZES: Final = ("replicas", "size")
"""The fields of `spec` that `scale` reads and writes for other kinds."""
_COUNTS: Final = dict.fromkeys(SIZES, 0)
_OF_LEASES: Final = {"leaseDurationSeconds": 1, "leaseTransitions": 0}
_INT32: Final = 1 << 31


class Problem(NamedTuple):
    """What is wrong with a field."""

    path: str
    text: str


class Rejected(Invalid):
    """An object has wrong values: 422."""

    def __init__(self, kind: str, name: str, path: str, problem: str, *more: Problem) -> None:
        self.kind, self.name = kind, name
        self.problems = (Problem(path, problem), *more)
        super().__init__(self.titled(kind), status=422)

    def titled(self, kind: str) -> str:
        """Returns the message that calls the kind so."""
        told = ", ".join(f"{path}: {text}" for path, text in self.problems)
        told = f"[{told}]" if len(self.problems) > 1 else told
        return f'{kind} "{self.name}" is invalid: {told}'


def completed(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the object with the defaults that the server fills in."""
    if kind in SIZED and "spec" in body and body["spec"].get("replicas") is None:
        return {**body, "spec": {**body["spec"], "replicas": 1}}
    return body


def validate(kind: str, name: str, body: Mapping[str, Any]) -> None:
    """Checks the numbers of replicas of an object, or the numbers of a Lease; raises Rejected if one is wrong."""
    spec = body.get("spec") or {}
    for member, least in (_OF_LEASES if kind == "Lease" else _COUNTS).items():
        if spec.get(member) is not None:
            check_count(kind, name, f"spec.{member}", spec[member], least=least)


def check_count(kind: str, name: str, path: str, value: object, *, least: int = 0) -> None:
    """Raises Rejected unless a value is a number of 32 bits, and `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _INT32:
        problem = f"Invalid value: {value}: must be greater than or equal to {least}"
        raise Rejected(kind, name, path, problem)
