"""What kubeconform knows: schemas from what an API server says of itself."""

import json
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

_EITHER: Final[Json] = {"oneOf": [{"type": "string"}, {"type": "number"}]}
_ALL: Final = "_definitions.json"
_KINDS: Final = "x-kubernetes-group-version-kind"
_APART: Final = {_KINDS, "properties"}
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_NOT_ASKED_FOR: Final = {"io.k8s.api.discovery.v1.EndpointSlice": "endpoints"}
"""Fields that are required on paper, and that the API server does without (docs/decisions/0032)."""
LOCATION: Final = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""The name of a schema's file, as kubeconform fills it in."""


def write_schemas(document: Json, folder: Path) -> Path:
    """Writes a schema for each kind, and one file with all that they refer to.

    Args:
        document: the answer to GET /openapi/v2.
        folder: where to; it is made.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True)
    definitions = {name: _strict(found) for name, found in document["definitions"].items()}
    definitions[_QUANTITY] = _EITHER
    for name, spared in _NOT_ASKED_FOR.items():
        definitions[name]["required"].remove(spared)
    (folder / _ALL).write_text(json.dumps({"definitions": definitions}))
    for name, definition in document["definitions"].items():
        for known in definition.get(_KINDS, ()):
            path = folder / _file_of(known["group"], known["version"], known["kind"])
            path.write_text(json.dumps({"$ref": f"{_ALL}#/definitions/{name}"}))
    return folder


def _file_of(group: str, version: str, kind: str) -> str:
    parts = [kind, group.partition(".")[0], version]
    return "-".join(each.lower() for each in parts if each) + ".json"


def _strict(found: Any) -> Any:
    """A schema that allows no field which it does not list."""
    if isinstance(found, list):
        return [_strict(each) for each in found]
    if not isinstance(found, dict):
        return found
    if found.get("format") == "int-or-string" or found.get("x-kubernetes-int-or-string"):
        return _EITHER
    made = {key: _strict(each) for key, each in found.items() if key not in _APART}
    if "properties" in found:  # names of fields, not words of the schema
        made["properties"] = {key: _strict(each) for key, each in found["properties"].items()}
        if not found.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    return made
