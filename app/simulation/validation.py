"""Defaulting and validation of objects, as an API server does before it stores them; pure."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from app.core.errors import Invalid

SIZED: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of `apps/v1` that have `spec.replicas`."""
SIZES: Final = ("replicas", "size")
"""The fields of `spec` that `scale` reads and writes for other kinds."""
_LEASE: Final = {"leaseDurationSeconds": 1, "leaseTransitions": 0}
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


class WrongType(Invalid):
    """A value has the wrong type: 400 if the object was sent as a whole, 422 if it results from a patch."""

    def __init__(self, kind: str, name: str, path: str, problem: str) -> None:
        self.kind, self.name, self.path, self.problem = kind, name, path, problem
        super().__init__(
            f"{kind} cannot be handled as a {kind}: {path}: cannot read {problem}", status=400
        )

    def of_patch(self) -> Rejected:
        """Returns the error for a value that results from a patch."""
        return Rejected(self.kind, self.name, self.path, f"cannot read {self.problem}")


def completed(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the object with the defaults that the server fills in."""
    if kind in SIZED and "spec" in body and body["spec"].get("replicas") is None:
        return {**body, "spec": {**body["spec"], "replicas": 1}}
    return body


def validate(kind: str, name: str, body: Mapping[str, Any]) -> None:
    """Checks the numbers of replicas of an object, or the numbers of a Lease.

    Raises:
        WrongType: one is no number of 32 bits.
        Rejected: one is too small; for a kind that is known by its `scale` only, also that it is no number.
    """
    spec = body.get("spec") or {}
    if kind in SIZED:
        check_count(kind, name, "spec.replicas", spec.get("replicas", 0))
    elif kind == "Lease":
        for member, least in _LEASE.items():
            if spec.get(member) is not None:
                check_count(kind, name, f"spec.{member}", spec[member], least=least)
    else:
        _check_size(kind, name, spec)


def _check_size(kind: str, name: str, spec: object) -> None:
    if not isinstance(spec, Mapping):
        return
    for member in SIZES:
        if member in spec:
            try:
                check_count(kind, name, f"spec.{member}", spec[member])
            except WrongType as error:
                raise error.of_patch() from error


def check_count(kind: str, name: str, path: str, value: object, *, least: int = 0) -> None:
    """Checks one number of replicas.

    Raises:
        WrongType: it is none of 32 bits.
        Rejected: it is less than `least`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT32 <= value < _INT32:
        raise WrongType(kind, name, path, f"{type(value).__name__} as a number of 32 bits")
    if value < least:
        problem = f"Invalid value: {value}: must be greater than or equal to {least}"
        raise Rejected(kind, name, path, problem)
