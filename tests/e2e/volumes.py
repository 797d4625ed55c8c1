"""What a kubelet puts into a pod's volumes: files, their modes and owners, and how they change."""

import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from tests.e2e.api import Api, Json

_VERSIONS = count(1)
_GROUP_MAY_READ: Final = 0o440
_MODE: Final = 0o644
_TOKEN_MODE: Final = 0o600
_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class Owners:
    """To whom files belong: of a pod's security context."""

    user: int | None
    """`runAsUser`, where all containers have the same: the token is theirs."""
    group: int | None
    """`fsGroup`."""
    real: bool
    """Whether files can be given away: only root can."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int
    user: int = 0


Files = Mapping[str, File]


class Source:
    """Reads what volumes are made of, in one namespace."""

    def __init__(self, api: Api, namespace: str, account: str, owners: Owners) -> None:
        self._api, self._namespace, self._account = api, namespace, account
        self.owners = owners

    async def files(self, volume: Json) -> Files | None:
        """The files of a volume; None where it is an empty folder for the pod to write into."""
        match volume:
            case {"emptyDir": _}:
                return None
            case {"configMap": found}:
                return await self._config_map(found, found.get("defaultMode", _MODE))
            case {"secret": found}:
                named = {**found, "name": found["secretName"]}
                return await self._secret(named, found.get("defaultMode", _MODE))
            case {"projected": found}:
                return await self._projected(found)
            case _:
                raise AssertionError(f"a volume that these tests do not know: {volume}")

    async def _projected(self, projected: Json) -> Files:
        mode = projected.get("defaultMode", _MODE)
        files: dict[str, File] = {}
        for each in projected["sources"]:
            match each:
                case {"serviceAccountToken": found}:
                    files |= await self._token(found, mode)
                case {"configMap": found}:
                    files |= await self._config_map(found, mode)
                case {"secret": found}:
                    files |= await self._secret(found, mode)
                case {"downwardAPI": found}:
                    files |= {
                        item["path"]: File(self._field(item), mode) for item in found["items"]
                    }
                case _:
                    raise AssertionError(f"a source that these tests do not know: {each}")
        return files

    def _field(self, item: Json) -> bytes:
        assert item["fieldRef"]["fieldPath"] == "metadata.namespace", item
        return self._namespace.encode()

    async def _token(self, source: Json, mode: int) -> Files:
        token = await self.token(source.get("expirationSeconds", _HOUR), source.get("audience"))
        given = self.owners.user is not None or self.owners.group is not None
        made = File(token.encode(), _TOKEN_MODE if given else mode, self.owners.user or 0)
        return {source["path"]: made}

    async def token(self, seconds: int, audience: str | None) -> str:
        """A token of the pod's ServiceAccount."""
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._account}/token"
        spec: Json = {"expirationSeconds": seconds}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self._api.create(path, body))["status"]["token"])

    async def _config_map(self, source: Json, mode: int) -> Files:
        if source["name"] == "kube-root-ca.crt":  # a controller would have made it
            data = {"ca.crt": self._api.ca}
        else:
            path = f"/api/v1/namespaces/{self._namespace}/configmaps/{source['name']}"
            found = await self._api.get(path)
            data = {key: text.encode() for key, text in (found.get("data") or {}).items()}
        return _chosen(data, source.get("items"), mode)

    async def _secret(self, source: Json, mode: int) -> Files:
        found = await self._api.get(
            f"/api/v1/namespaces/{self._namespace}/secrets/{source['name']}"
        )
        data = {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
        return _chosen(data, source.get("items"), mode)

    async def value(self, reference: Json) -> str:
        """What `secretKeyRef` or `configMapKeyRef` refers to."""
        kind, found = next(iter(reference.items()))
        read = self._secret if kind == "secretKeyRef" else self._config_map
        files = await read({"name": found["name"]}, _MODE)
        return files[found["key"]].content.decode()


def _chosen(data: Mapping[str, bytes], items: list[Json] | None, mode: int) -> Files:
    if items is None:
        return {key: File(content, mode) for key, content in data.items()}
    return {each["path"]: File(data[each["key"]], each.get("mode", mode)) for each in items}


def write(files: Files, folder: Path, owners: Owners) -> None:
    """Writes a volume as a kubelet does: all files change at once, behind a link."""
    folder.mkdir(exist_ok=True)
    version = f"..version-{next(_VERSIONS)}"
    (folder / version).mkdir(mode=0o755)
    for path, file in files.items():
        _write(folder / version / path, file, owners)
    _link(folder / "..data", version)
    for path in files:
        if not (folder / path).is_symlink():
            (folder / path).symlink_to(f"..data/{path}")
    for former in folder.glob("..version-*"):
        if former.name != version:
            shutil.rmtree(former)
    for gone in folder.iterdir():
        if not gone.name.startswith("..") and gone.name not in files:
            gone.unlink()


def _write(path: Path, file: File, owners: Owners) -> None:
    path.write_bytes(file.content)
    mode = file.mode if owners.group is None else file.mode | _GROUP_MAY_READ
    path.chmod(mode)
    if owners.real:
        os.chown(path, file.user, 0 if owners.group is None else owners.group)


def _link(path: Path, target: str) -> None:
    fresh = path.with_name("..data_tmp")
    fresh.symlink_to(target)
    fresh.replace(path)
