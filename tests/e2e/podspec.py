"""What a Deployment says of its pods, and what a kubelet makes of it: users, variables, and files in volumes."""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.api import Api, Json

_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_ACCESS: Final = "kube-api-access"
"""The volume with the token of the ServiceAccount, as the admission of pods adds it."""
_REFERENCE: Final = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_GROUP_MAY_READ: Final = 0o440
_MODE, _TOKEN_MODE = 0o644, 0o600
_HOUR: Final = 3607


@dataclass(frozen=True, slots=True)
class Spec:
    """What a Deployment says of its pods, which have one container."""

    namespace: str
    name: str
    pod: Json
    container: Json

    @classmethod
    def of(cls, deployment: Json) -> "Spec":
        """The template of a Deployment."""
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
    def group(self) -> int | None:
        """To whom files of volumes belong: `fsGroup`."""
        return (self.pod.get("securityContext") or {}).get("fsGroup")

    @property
    def read_only(self) -> bool:
        """Whether the container's root cannot be written to."""
        return bool((self.container.get("securityContext") or {}).get("readOnlyRootFilesystem"))

    @property
    def mounts(self) -> dict[str, str]:
        """The volumes that are mounted, by path, with the one that brings the token of the ServiceAccount."""
        listed = self.container.get("volumeMounts") or ()
        assert not any("subPath" in each for each in listed), "these tests know no subPath"
        assert self.pod.get("automountServiceAccountToken", True), "there is a token in each pod"
        return {each["mountPath"].rstrip("/"): each["name"] for each in listed} | {
            _ACCOUNT: _ACCESS
        }

    # What a kubelet makes of it.

    async def write_volumes(self, api: Api, place: Path) -> None:
        """Writes the files of each volume into a folder of its name, with their modes and owners."""
        account = self.pod.get("serviceAccountName", "default")
        token = await api.token_of(self.namespace, account, seconds=_HOUR)
        known = {"token": token.encode(), "ca.crt": api.ca, "namespace": self.namespace.encode()}
        self._write(place / _ACCESS, known, _MODE)
        (place / _ACCESS / "..data/token").chmod(self._mode(_TOKEN_MODE))
        os.chown(place / _ACCESS / "..data/token", self.security("runAsUser") or 0, self.group or 0)
        for volume in self.pod.get("volumes") or ():
            match volume:
                case {"name": name, "configMap": source}:
                    path = f"/api/v1/namespaces/{self.namespace}/configmaps/{source['name']}"
                    texts = (await api.get(path))["data"]
                    files = {key: text.encode() for key, text in texts.items()}
                case {"name": name, "secret": source}:
                    path = f"/api/v1/namespaces/{self.namespace}/secrets/{source['secretName']}"
                    texts = (await api.get(path))["data"]
                    files = {key: base64.b64decode(text) for key, text in texts.items()}
                case _:
                    raise AssertionError(f"a volume that these tests do not know: {volume}")
            assert "items" not in source, "these tests know no items"
            self._write(place / name, files, source.get("defaultMode", _MODE))

    def _write(self, folder: Path, files: Mapping[str, bytes], mode: int) -> None:
        """Behind a link, by which a kubelet changes all of them at once."""
        data = folder / "..version"
        data.mkdir(mode=0o755, parents=True)
        (folder / "..data").symlink_to("..version")
        for name, content in files.items():
            (data / name).write_bytes(content)
            (data / name).chmod(self._mode(mode))
            os.chown(data / name, 0, self.group or 0)
            (folder / name).symlink_to(f"..data/{name}")

    def _mode(self, mode: int) -> int:
        return mode if self.group is None else mode | _GROUP_MAY_READ

    def environment(self, fields: Mapping[str, str]) -> dict[str, str]:
        """The variables of its container; `fields` of the pod by their paths."""
        found: dict[str, str] = {}
        for each in self.container.get("env") or ():
            if "valueFrom" in each:
                found[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                found[each["name"]] = expanded(each.get("value", ""), found)
        return found


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` replaced; `$$(NAME)` stays as `$(NAME)`, and so does a name that is not known."""

    def of(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        return environment.get(found[2], found[0])

    return _REFERENCE.sub(of, text)
