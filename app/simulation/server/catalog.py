"""The resources that an API server serves, and its discovery documents; pure."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final

from app.simulation.definitions import OBJECT_VERBS, Definition, ServedResource
from app.simulation.store import Store

_REPLACED: Final = (*OBJECT_VERBS, "update")
_READ: Final = ("get", "list", "watch")
_PART: Final = ("get", "patch")


_SIZED: Final = ("status", "scale")


def _review(group: str, plural: str, kind: str) -> ServedResource:
    return ServedResource(group, "v1", plural, kind, namespaced=False, stored=False)


_REVIEWS: Final = (
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    _review("authentication.k8s.io", "tokenreviews", "TokenReview"),
)


SEED_RESOURCES: Final = (
    ServedResource("", "v1", "namespaces", "Namespace", namespaced=False, short="ns"),
    ServedResource("", "v1", "secrets", "Secret"),
    ServedResource("", "v1", "pods", "Pod", parts=("status",), short="po"),
    ServedResource("", "v1", "services", "Service", parts=("status",), short="svc"),
    ServedResource("apps", "v1", "deployments", "Deployment", parts=_SIZED, short="deploy"),
    ServedResource("apps", "v1", "statefulsets", "StatefulSet", parts=_SIZED, short="sts"),
    ServedResource("apps", "v1", "replicasets", "ReplicaSet", parts=_SIZED, short="rs"),
    ServedResource("coordination.k8s.io", "v1", "leases", "Lease", verbs=_REPLACED),
    ServedResource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", verbs=_REPLACED),
    # The Events of the other group in the words of this one, as `kubectl describe` asks for them; a real server takes
    # writes here, too.
    ServedResource(
        *("", "v1", "events", "Event"),
        short="ev",
        verbs=_READ,
        fields=(
            *(f"involvedObject.{each}" for each in ("kind", "namespace", "name", "uid")),
            *("reason", "reportingComponent", "type"),
        ),
    ),
    ServedResource("events.k8s.io", "v1", "events", "Event"),
    ServedResource(
        "extensions.gardener.cloud", "v1alpha1", "clusters", "Cluster", namespaced=False
    ),
    ServedResource("machine.sapcloud.io", "v1alpha1", "machines", "Machine", parts=("status",)),
    *_REVIEWS,
)
SHOOT_RESOURCES: Final = (
    ServedResource("", "v1", "nodes", "Node", namespaced=False, verbs=_READ),
    ServedResource("coordination.k8s.io", "v1", "leases", "Lease", verbs=_READ),
)
"""What a probe reads. The API servers of shoots are read-only: nodes and kubelets write to the store themselves."""


class Catalog:
    """The resources of one API server: built-in and defined ones, and other kinds that its store has objects of."""

    def __init__(self, known: Iterable[ServedResource], store: Store) -> None:
        self._known = {(each.group, each.version, each.plural): each for each in known}
        self._kinds = {each.kind for each in self._known.values()}
        self._store = store

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Returns a resource; None if it is not served."""
        return self._served().get((group, version, plural))

    def _served(self) -> dict[tuple[str, str, str], ServedResource]:
        """Returns all resources, with kinds that appeared in the store: dependents of any group, with `scale`."""
        for kind in set(self._store.kinds()) - self._kinds - self._store.definitions.keys():
            objects = self._store.list(kind)
            if not objects:
                continue
            group, _, version = str(objects[0]["apiVersion"]).rpartition("/")
            resource = ServedResource(group, version, f"{kind.lower()}s", kind, parts=_SIZED)
            self._known[group, version, resource.plural] = resource
            self._kinds.add(kind)
        defined = self._store.definitions.values()
        return self._known | {(each.group, each.version, each.plural): each for each in defined}

    def is_built_in(self, group: str) -> bool:
        """Returns whether a group is built in; such groups answer for their unknown resources themselves."""
        return "." not in group or group.endswith(".k8s.io")

    def discovered(self, path: str) -> dict[str, Any] | None:
        """Returns the discovery document of a path; None if the path is not one of discovery.

        Raises:
            LookupError: the group or the version is not served.
        """
        match path.strip("/").split("/"):
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ["apis"]:
                groups = list(self._groups().values())
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group]:
                return {"kind": "APIGroup", "apiVersion": "v1", **self._groups()[group]}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", "v3"]:
                known = self._store.definitions.values()
                paths = {f"apis/{each.group}/{each.version}" for each in known}
                return {
                    "paths": {each: {"serverRelativeURL": f"/openapi/v3/{each}"} for each in paths}
                }
            case ["openapi", "v3", "apis", group, version]:
                return self._openapi(group, version)
            case _:
                return None

    def _groups(self) -> dict[str, dict[str, Any]]:
        """Returns all groups but the core group."""
        served = {(each.group, each.version) for each in self._served().values() if each.group}
        found = {}
        for group, version in sorted(served):
            entry = {"groupVersion": f"{group}/{version}", "version": version}
            found[group] = {"name": group, "versions": [entry], "preferredVersion": entry}
        return found

    def _resources(self, group: str, version: str) -> dict[str, Any]:
        served = self._served().values()
        found = [each for each in served if (each.group, each.version) == (group, version)]
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if group else {}),
            "groupVersion": found[0].api_version,
            "resources": [entry for each in found for entry in _entries(each)],
        }

    def _openapi(self, group: str, version: str) -> dict[str, Any]:
        """Returns what is said of custom resources that have a definition, as much of it as kubectl needs."""
        known = self._store.definitions.values()
        found = [each for each in known if (each.group, each.version) == (group, version)]
        if not found:
            raise LookupError(group)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "simulated"},
            "paths": {path: item for each in found for path, item in _paths(each).items()},
            "components": {
                "schemas": {each.kind: {**each.schema, **_named(each, list)} for each in found}
            },
        }


def _named(each: Definition, wrap: Callable[[list[dict[str, str]]], object]) -> dict[str, object]:
    named = {"group": each.group, "version": each.version, "kind": each.kind}
    return {"x-kubernetes-group-version-kind": wrap([named])}


def _paths(each: Definition) -> dict[str, Any]:
    """Returns what can be done with an object: kubectl asks whether unknown fields can be refused."""
    strict = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    whole = f"/apis/{each.group}/{each.version}/namespaces/{{namespace}}/{each.plural}/{{name}}"
    named = _named(each, itemgetter(0))
    return {
        whole: {"get": {"parameters": (), **named}, "patch": {"parameters": (strict,), **named}}
    }


def _entries(resource: ServedResource) -> list[dict[str, Any]]:
    every = {"namespaced": resource.namespaced, "kind": resource.kind}
    whole = {
        **every,
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "verbs": list(resource.verbs) if resource.stored else ["create"],
        **({"shortNames": [resource.short]} if resource.short else {}),
        **({"categories": resource.categories} if isinstance(resource, Definition) else {}),
    }
    return [whole, *({**every, **_part(resource, part)} for part in resource.parts)]


def _part(resource: ServedResource, part: str) -> dict[str, Any]:
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"} if part == "scale" else {}
    name = f"{resource.plural}/{part}"
    return {"name": name, "singularName": "", "verbs": list(_PART), **scale}
