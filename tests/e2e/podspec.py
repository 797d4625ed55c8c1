"""What a Deployment says of its pods: containers, volumes, users, and what Kubernetes adds to them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.e2e.api import Json
from tests.e2e.volumes import Owners

_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_REFERENCE: Final = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True, slots=True)
class Spec:
    """What a Deployment says of its pods."""

    namespace: str
    name: str
    pod: Json
    container: Json

    @classmethod
    def of(cls, deployment: Json) -> "Spec":
        """The template of a Deployment with one container."""
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        about = deployment["metadata"]
        return cls(about["namespace"], about["name"], pod, container)

    def security(self, key: str) -> int | None:
        """A number of the security context, the container's before the pod's."""
        inner, outer = (each.get("securityContext") or {} for each in (self.container, self.pod))
        found: int | None = inner.get(key, outer.get(key))
        return found

    @property
    def owners(self) -> Owners:
        """To whom files of volumes belong."""
        group = (self.pod.get("securityContext") or {}).get("fsGroup")
        return Owners(self.security("runAsUser"), group, real=not os.geteuid())

    @property
    def read_only(self) -> bool:
        """Whether the container's root cannot be written to."""
        return bool((self.container.get("securityContext") or {}).get("readOnlyRootFilesystem"))

    @property
    def volumes(self) -> dict[str, Json]:
        """Its volumes by name, with the one that brings the token of the ServiceAccount."""
        found = {each["name"]: each for each in self.pod.get("volumes") or ()}
        if self._mounts_account:
            found["kube-api-access"] = {"projected": _access()}
        return found

    @property
    def mounts(self) -> dict[str, str]:
        """The volumes that are mounted, by path."""
        listed = self.container.get("volumeMounts") or ()
        assert not any("subPath" in each for each in listed), "these tests know no subPath"
        found = {each["mountPath"].rstrip("/"): each["name"] for each in listed}
        return {**found, _ACCOUNT: "kube-api-access"} if self._mounts_account else found

    @property
    def _mounts_account(self) -> bool:
        taken = (each["mountPath"].rstrip("/") for each in self.container.get("volumeMounts") or ())
        return self.pod.get("automountServiceAccountToken", True) and _ACCOUNT not in taken


def _access() -> Json:
    """As the admission of pods adds it."""
    own = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [own]}},
        ],
    }


def links(service: Json) -> dict[str, str]:
    """The variables that a pod gets for a Service of its namespace."""
    address = service["spec"].get("clusterIP")
    if not address or address == "None":
        return {}
    name = service["metadata"]["name"].upper().replace("-", "_")
    found = {f"{name}_SERVICE_HOST": address}
    for number, each in enumerate(service["spec"].get("ports") or ()):
        port, protocol = each["port"], each.get("protocol", "TCP")
        url = f"{protocol.lower()}://{address}:{port}"
        if number == 0:
            found |= {f"{name}_SERVICE_PORT": str(port), f"{name}_PORT": url}
        if each.get("name"):
            found[f"{name}_SERVICE_PORT_{each['name'].upper().replace('-', '_')}"] = str(port)
        found[f"{name}_PORT_{port}_{protocol}"] = url
    return found


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` replaced; `$$(NAME)` stays as `$(NAME)`, and so does a name that is not known."""

    def of(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        return environment.get(found[2], found[0])

    return _REFERENCE.sub(of, text)
