"""Decodes answers of a shoot's API server: versions, Leases, Nodes. The hot path: thousands of these a second.

Lists are decoded in steps, because a hostile server may send millions of items: msgspec takes 600 ms for some JSON of
60 MiB (docs/decisions/0043). A long list is split where each item begins, by a search that costs next to nothing.
Kubernetes writes all its lists in one way, and long lists that are written otherwise are refused.
"""

from collections.abc import Callable, Generator
from typing import Annotated, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.core.errors import BadAnswer, LimitExceeded, trimmed
from app.core.kube.decoding.envelope import Few, ListMeta, RawPage, page
from app.core.model.instants import parse_rfc3339
from app.core.model.shoots import LeaseView, NodeView

MAX_VERSION_TEXT: Final = 64
MAX_ITEMS: Final = 10_000
"""Maximum number of Leases or Nodes of one shoot: Kubernetes supports 5,000 nodes."""
# Maximum bytes of a list that is decoded in one go: at worst in 8 ms.
_SHORT: Final = 256 * 1024
# Maximum bytes of one item of a longer list, or of everything but its items; etcd accepts objects of 1.5 MiB, and no
# Node is that large.
_LONGEST: Final = 1 << 20
_BEGIN: Final = b'"items":['
_BETWEEN: Final = b'},{"metadata":'
# Limit on the conditions that the Nodes of one answer do not share: their characters, and 100 for each. A server
# that names new ones for each Node would have us keep four times what it sends; a real shoot has a few dozen.
_MOST_CONDITIONS: Final = 1 << 20
_EACH_CONDITION: Final = 100
_LONGEST_REASON: Final = 64
# Records that are created in one step.
_TOGETHER: Final = 500

Undecoded = bytes | bytearray
I = TypeVar("I", bound=Struct)  # noqa: E741 - an item, as it travels
V = TypeVar("V")
Steps = Generator[None, None, RawPage[V]]


# As long as names in Kubernetes; longer ones would only cost memory.
_NodeName = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


# As long as the value of a label in Kubernetes.
_Label = Annotated[str, msgspec.Meta(max_length=63)]


class _Name(Struct):
    name: _NodeName


class _Version(Struct, rename="camel"):
    git_version: str


class _LeaseSpec(Struct, rename="camel"):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(Struct):
    metadata: _Name
    spec: _LeaseSpec | None = None


class _NodeLabels(Struct):
    pool: _Label | None = msgspec.field(default=None, name="worker.gardener.cloud/pool")
    zone: _Label | None = msgspec.field(default=None, name="topology.kubernetes.io/zone")


class _NodeAnnotations(Struct):
    not_managed: str | UnsetType | None = msgspec.field(
        default=UNSET, name="node.machine.sapcloud.io/not-managed-by-mcm"
    )


class _NodeMeta(Struct):
    name: _NodeName
    labels: _NodeLabels | None = None
    annotations: _NodeAnnotations | None = None


class _Condition(Struct):
    type: str
    status: str
    reason: str | None = None


class _NodeStatus(Struct):
    conditions: Few[_Condition] | None = None


class _Node(Struct):
    metadata: _NodeMeta
    status: _NodeStatus | None = None


class _Envelope(Struct):
    """A list without its items."""

    kind: str | None = None
    metadata: ListMeta | None = None


class _List(Struct, Generic[I]):
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[I] | None = None


_version_decoder: Final = msgspec.json.Decoder(_Version)
_envelope_decoder: Final = msgspec.json.Decoder(_Envelope)
_leases_decoder: Final = msgspec.json.Decoder(_List[_Lease])
_lease_decoder: Final = msgspec.json.Decoder(_Lease)
_nodes_decoder: Final = msgspec.json.Decoder(_List[_Node])
_node_decoder: Final = msgspec.json.Decoder(_Node)
_NO_LABELS: Final = _NodeLabels()
_IN_PLACE_UPDATE: Final = "InPlaceUpdate"


def version(raw: Undecoded) -> str:
    """Returns `gitVersion` of an answer to `/version`, as one short printable line."""
    text = trimmed(_version_decoder.decode(raw).git_version, MAX_VERSION_TEXT)
    if not text:
        raise BadAnswer("the answer is not a version: gitVersion is empty")
    return text


def leases(raw: Undecoded) -> Steps[LeaseView]:
    """Decodes one page of a LeaseList, in steps.

    Raises:
        LimitExceeded: it has more or larger items than any shoot has.
        BadAnswer: it is something else; also msgspec.MsgspecError, UnicodeDecodeError and RecursionError.
    """
    return _list("LeaseList", raw, _leases_decoder, _lease_decoder, _lease)


def _lease(lease: _Lease) -> LeaseView:
    spec = lease.spec
    if spec is None:
        return LeaseView(lease.metadata.name, None, None)
    return LeaseView(
        lease.metadata.name, parse_rfc3339(spec.renew_time), spec.lease_duration_seconds
    )


def nodes(raw: Undecoded) -> Steps[NodeView]:
    """Decodes one page of a NodeList, in steps; raises what `leases` raises."""
    return _list("NodeList", raw, _nodes_decoder, _node_decoder, _NodeViews().of)


class _NodeViews:
    """Makes the records of the Nodes of one answer; equal sets of conditions are kept once."""

    def __init__(self) -> None:
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._left = _MOST_CONDITIONS

    def of(self, node: _Node) -> NodeView:
        """Returns the record of a Node.

        Raises:
            LimitExceeded: the Nodes of this answer have more different conditions than any shoot's.
        """
        meta = node.metadata
        labels = meta.labels or _NO_LABELS
        annotations = meta.annotations
        true = [c for c in (node.status and node.status.conditions) or () if c.status == "True"]
        reason = next((c.reason for c in true if c.type == _IN_PLACE_UPDATE), None)
        return NodeView(
            name=meta.name,
            pool=labels.pool,
            zone=labels.zone,
            not_managed=annotations is not None and annotations.not_managed is not UNSET,
            conditions=self._shared(frozenset([c.type for c in true])),
            in_place_update=reason and reason[:_LONGEST_REASON],
        )

    def _shared(self, conditions: frozenset[str]) -> frozenset[str]:
        known = self._sets.get(conditions)
        if known is not None:
            return known
        self._left -= sum(map(len, conditions)) + _EACH_CONDITION * len(conditions)
        if self._left < 0:
            raise LimitExceeded("count", "the nodes have more conditions than any shoot's")
        self._sets[conditions] = conditions
        return conditions


def _list(
    kind: str,
    raw: Undecoded,
    whole: msgspec.json.Decoder[_List[I]],
    one: msgspec.json.Decoder[I],
    view: Callable[[I], V],
) -> Steps[V]:
    if len(raw) > _SHORT:
        return (yield from _long_list(kind, raw, one, view))
    got = whole.decode(raw)
    items = got.items or []
    if len(items) > MAX_ITEMS:
        raise _too_many()
    found: list[V] = []
    for start in range(0, len(items), _TOGETHER):
        found += map(view, items[start : start + _TOGETHER])
        yield
    return page(kind, got.kind, got.metadata, tuple(found))


def _long_list(
    kind: str, raw: Undecoded, one: msgspec.json.Decoder[I], view: Callable[[I], V]
) -> Steps[V]:
    before, end = raw.find(_BEGIN, 0, _LONGEST), raw.rfind(b"]", len(raw) - _LONGEST)
    if min(before, end) < 0:
        raise _too_long()
    at = before + len(_BEGIN)
    envelope = _envelope_decoder.decode(raw[:at] + raw[end:])
    found: list[V] = []
    with memoryview(raw) as everything:
        while at < end:
            following = raw.find(_BETWEEN, at, min(at + _LONGEST, end))
            stop = end if following < 0 else following + 1
            if stop - at > _LONGEST:
                raise _too_long()
            with everything[at:stop] as item:
                found.append(view(one.decode(item)))
            if len(found) > MAX_ITEMS:
                raise _too_many()
            at = stop + 1  # after the comma
            yield
    return page(kind, envelope.kind, envelope.metadata, tuple(found))


def _too_many() -> LimitExceeded:
    return LimitExceeded("count", f"the list has more than {MAX_ITEMS} items")


def _too_long() -> LimitExceeded:
    return LimitExceeded(
        "size", "the list is long, and cannot be taken apart where its items begin"
    )
