"""Parses the DeleteOptions of a request, from its body or, without a body, from its query; pure."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from app.core.errors import Invalid
from app.simulation.deletion import DeleteOptions
from app.simulation.server.options import truth, whole
from app.simulation.store import Object
from app.simulation.validation import Rejected

_KIND: Final = "DeleteOptions"
_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")
_TYPES: Final[Mapping[str, type]] = {
    "preconditions": dict,
    "gracePeriodSeconds": int,
    "propagationPolicy": str,
    "orphanDependents": bool,
    "dryRun": list,
}
_PRECONDITIONS: Final[Mapping[str, type]] = {"uid": str, "resourceVersion": str}


class DeletionRequest(NamedTuple):
    """A requested deletion."""

    options: DeleteOptions
    keeps_dependents: bool | None = None
    """`orphanDependents`; it only affects the status code, as the simulation has no garbage collector."""

    def code(self, *, gone: bool) -> int:
        """Returns the HTTP status: 202 if the object is not gone yet and its dependents are to be deleted, else 200."""
        return 202 if self.keeps_dependents is False and not gone else 200


def asked_in(body: Object, query: Mapping[str, str]) -> DeletionRequest:
    """Reads the options of a deletion.

    Raises:
        Invalid: 400, they are of another kind, or one is of a wrong type; 422, one has a value that is none.
    """
    options = body or _of(query)
    kind = options.get("kind", _KIND)
    if kind != _KIND:
        raise Invalid(f'no kind "{kind}" is registered for this version', status=400)
    _check_types(options, _TYPES, "")
    preconditions = options.get("preconditions") or {}
    _check_types(preconditions, _PRECONDITIONS, "preconditions.")
    _check_values(options)
    wanted = DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        grace=options.get("gracePeriodSeconds"),
        dry_run=bool(options.get("dryRun")),
    )
    return DeletionRequest(wanted, options.get("orphanDependents"))


def _of(query: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if grace := query.get("gracePeriodSeconds"):
        found["gracePeriodSeconds"] = whole("gracePeriodSeconds", grace)
    if policy := query.get("propagationPolicy"):
        found["propagationPolicy"] = policy
    if orphan := query.get("orphanDependents"):
        found["orphanDependents"] = truth("orphanDependents", orphan)
    if dry_run := query.get("dryRun"):
        found["dryRun"] = [dry_run]
    return found


def _check_types(members: Object, types: Mapping[str, type], path: str) -> None:
    for name, expected in types.items():
        value = members.get(name)
        if value is not None and type(value) is not expected:
            raise Invalid(f"cannot read {_KIND}.{path}{name} as {expected.__name__}", status=400)


def _check_values(options: Object) -> None:
    policy, dry_run = options.get("propagationPolicy"), options.get("dryRun") or []
    if policy is not None and options.get("orphanDependents") is not None:
        problem = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise Rejected(_KIND, "", "propagationPolicy", problem)
    if policy not in (None, *_POLICIES):
        known = ", ".join(f'"{each}"' for each in _POLICIES)
        problem = f'Unsupported value: "{policy}": supported values: {known}'
        raise Rejected(_KIND, "", "propagationPolicy", problem)
    if dry_run not in ([], ["All"]):
        raise Rejected(_KIND, "", "dryRun", 'Unsupported value: supported values: "All"')
