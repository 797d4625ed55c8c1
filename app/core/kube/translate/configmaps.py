"""The ConfigMap of the overrides."""

from typing import Final

import msgspec
from msgspec import Struct

from app.core.kube.translate.envelope import Raw
from app.core.overrides_ports import OverridesDocument


class _Meta(Struct):
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")


class _ConfigMap(Struct):
    metadata: _Meta
    data: dict[str, str | None] | None = None


_decoder: Final = msgspec.json.Decoder(_ConfigMap)


def overrides(raw: Raw) -> OverridesDocument:
    """A ConfigMap; what its keys mean is for others to say."""
    got = _decoder.decode(raw)
    return OverridesDocument(
        uid=got.metadata.uid,
        resource_version=got.metadata.resource_version,
        data={key: value or "" for key, value in (got.data or {}).items()},
        whole=msgspec.json.decode(raw),
    )
