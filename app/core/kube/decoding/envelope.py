"""What all answers have in common: pages of lists, watch events, metadata, Status objects."""

from collections.abc import Callable
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from app.core.errors import BadAnswer, trimmed
from app.core.model import workloads as ann

T = TypeVar("T")
Raw = bytes | bytearray | msgspec.Raw
FEW: Final = msgspec.Meta(max_length=1_000)
"""Maximum length of any list in an object, above all real ones: a hundred thousand tiny items would block the event
loop."""
Few = Annotated[list[T], FEW]
# Maximum characters of a continue token, which goes into a URL; those of etcd have a few hundred.
_LONGEST_TOKEN: Final = 4096


class ListMeta(Struct, rename="camel"):
    """The metadata of a list."""

    resource_version: str | None = None
    continues: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = msgspec.field(
        default=None, name="continue"
    )


class RawPage(NamedTuple, Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    resource_version: str
    continues: str
    """The continue token; empty on the last page."""


def page(kind: str, got: str | None, meta: ListMeta | None, items: tuple[T, ...]) -> RawPage[T]:
    """Returns a page, after checking that the answer is of this kind."""
    expect(kind, got)
    meta = meta or ListMeta()
    return RawPage(items, meta.resource_version or "", meta.continues or "")


def expect(kind: str, got: str | None) -> None:
    """Raises BadAnswer unless the answer is of this kind."""
    if got != kind:
        raise BadAnswer(f"the answer is not of kind {kind}")


class Meta(Struct, rename="camel"):
    """The metadata that identifies an object."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None


class _Identified(Struct):
    metadata: Meta


class _Versioned(Struct, rename="camel"):
    resource_version: str


class _Bookmark(Struct):
    metadata: _Versioned


class _RawList(Struct):
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[msgspec.Raw] | None = None


class WatchEvent(Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Status(Struct):
    """What went wrong, in the words of an API server."""

    message: str | None = None
    code: int | None = None


_identified_decoder: Final = msgspec.json.Decoder(_Identified)
_raw_list_decoder: Final = msgspec.json.Decoder(_RawList)
_bookmark_decoder: Final = msgspec.json.Decoder(_Bookmark)
_event_decoder: Final = msgspec.json.Decoder(WatchEvent)
_status_decoder: Final = msgspec.json.Decoder(Status)


def raw_page(kind: str) -> Callable[[Raw], RawPage[msgspec.Raw]]:
    """Returns a decoder of one page of a list of `kind`, with raw items: one bad item must not hide the others."""

    def read(raw: Raw) -> RawPage[msgspec.Raw]:
        got = _raw_list_decoder.decode(raw)
        return page(kind + "List", got.kind, got.metadata, tuple(got.items or ()))

    return read


def identity(raw: Raw) -> Meta:
    """Decodes the metadata of any object."""
    return _identified_decoder.decode(raw).metadata


def bookmark(raw: Raw) -> str:
    """Returns the resourceVersion of a bookmark, which has no name."""
    return _bookmark_decoder.decode(raw).metadata.resource_version


def watch_event(line: bytes) -> WatchEvent:
    """One line of a watch."""
    return _event_decoder.decode(line)


def status_message(raw: Raw) -> str:
    """Returns the message of a Status object; empty if it is not one."""
    try:
        return trimmed(status(raw).message or "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def status(raw: Raw) -> Status:
    """Decodes a Status object, as an ERROR event of a watch carries it."""
    return _status_decoder.decode(raw)


# Lists of metadata only: which objects of a kind exist, without their content.


METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
"""The media type that makes an API server send metadata only."""


class _Annotated(Meta):
    annotations: dict[str, str | None] | None = None


class _Item(Struct):
    metadata: _Annotated


_item_decoder: Final = msgspec.json.Decoder(_Item)


def name_if_protected(raw: Raw) -> tuple[str, str] | None:
    """Returns namespace and name of an object if it has the meltdown key, else None."""
    meta = _item_decoder.decode(raw).metadata
    annotations = {key: value or "" for key, value in (meta.annotations or {}).items()}
    return (meta.namespace or "", meta.name) if ann.protected(annotations) else None


# Discovery: what an API group serves.


class _Resource(Struct):
    name: str
    kind: str


class _ResourceList(Struct):
    kind: str | None = None
    resources: list[_Resource] | None = None


_resource_list: Final = msgspec.json.Decoder(_ResourceList)


def resource_list(raw: Raw) -> tuple[tuple[str, str], ...]:
    """Returns kind and plural of each resource of a group version; subresources are not among them."""
    got = _resource_list.decode(raw)
    expect("APIResourceList", got.kind)
    return tuple((each.kind, each.name) for each in got.resources or () if "/" not in each.name)
