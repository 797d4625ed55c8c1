"""The ConfigMap of the overrides."""

from types import NoneType
from typing import Any, Final

import msgspec
from msgspec import Struct

from app.core.errors import BadAnswer
from app.core.kube.decoding.envelope import Raw
from app.core.ports import OverridesDocument


class _ConfigMapMeta(Struct):
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")


class _ConfigMap(Struct):
    metadata: _ConfigMapMeta


_decoder: Final = msgspec.json.Decoder(_ConfigMap)


def overrides(raw: Raw) -> OverridesDocument:
    """A ConfigMap; what its keys mean is for others to say."""
    meta, whole = _decoder.decode(raw).metadata, msgspec.json.decode(raw)
    return OverridesDocument(meta.uid, meta.resource_version, _texts(whole.get("data")), whole)


def _texts(data: Any) -> dict[str, str]:  # noqa: ANN401  JSON data
    """What is under each key; there may be 200,000, so they are looked at together."""
    if data is None:
        return {}
    if not isinstance(data, dict) or not set(map(type, data.values())) <= {str, NoneType}:
        raise BadAnswer("the data of the ConfigMap is not text")
    if None in data.values():
        return {key: text or "" for key, text in data.items()}
    return data
