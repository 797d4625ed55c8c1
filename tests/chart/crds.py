"""The kinds of others that the chart has objects of, as `crds.yaml` has them."""

from pathlib import Path
from typing import Any, Final

import yaml

Json = dict[str, Any]

_TABLE: Final = yaml.safe_load((Path(__file__).parent / "crds.yaml").read_text(encoding="utf-8"))


def optional_crds() -> list[Json]:
    """Their definitions, for an API server."""
    return [_definition(title, spec) for title, spec in _TABLE["kinds"].items()]


def optional_kinds() -> set[str]:
    """The kinds without which the chart has to do, too."""
    return {title.split()[1] for title in _TABLE["kinds"]}


def _definition(title: str, spec: Json) -> Json:
    served, kind = title.split()
    resource, _, version = served.partition("/")
    plural, _, group = resource.partition(".")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": spec, "status": anything},
    }
    served_version = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    metadata: Json = {"name": resource}
    if group.endswith("k8s.io"):  # protected: whoever defines such a kind says that it was agreed
        metadata["annotations"] = {
            "api-approved.kubernetes.io": "unapproved, a definition for tests"
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [served_version],
        },
    }
