"""Lists of metadata alone: what there is of a kind, without its content."""

from typing import Final

import msgspec
from msgspec import Struct

from app.core.kube.decoding.envelope import ListMeta, Page, Raw, page
from app.core.model import annotations as ann

METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
"""What to accept, for an API server to send metadata alone."""


class _Named(Struct):
    name: str
    namespace: str | None = None
    annotations: dict[str, str | None] | None = None


class _Item(Struct):
    metadata: _Named


class _List(Struct):
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[_Item] | None = None


_decoder: Final = msgspec.json.Decoder(_List)


def with_meltdown_key(raw: Raw) -> Page[tuple[str, str]]:
    """Namespace and name of each object on this page that carries the meltdown key."""
    got = _decoder.decode(raw)
    found = tuple(
        (item.metadata.namespace or "", item.metadata.name)
        for item in got.items or ()
        if ann.protected(
            {key: value or "" for key, value in (item.metadata.annotations or {}).items()}
        )
    )
    return page("PartialObjectMetadataList", got.kind, got.metadata, found)
