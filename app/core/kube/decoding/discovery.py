"""What an API group serves."""

from typing import Final

import msgspec
from msgspec import Struct

from app.core.kube.decoding.envelope import Raw, expect


class _Resource(Struct):
    name: str
    kind: str


class _ResourceList(Struct):
    kind: str | None = None
    resources: list[_Resource] | None = None


_decoder: Final = msgspec.json.Decoder(_ResourceList)


def resource_list(raw: Raw) -> tuple[tuple[str, str, bool], ...]:
    """Kind, plural and whether there is a `scale` subresource, for each resource of an API group's version."""
    got = _decoder.decode(raw)
    expect("APIResourceList", got.kind)
    resources = got.resources or []
    names = {resource.name for resource in resources}
    return tuple(
        (resource.kind, resource.name, f"{resource.name}/scale" in names)
        for resource in resources
        if "/" not in resource.name
    )
