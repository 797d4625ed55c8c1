"""Answers of a shoot's API server: versions, Leases, Nodes.  The hot path: thousands of these a second."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.core.errors import BadAnswer, trimmed
from app.core.kube.translate.envelope import ListMeta, Page, Raw, not_too_many, page
from app.core.model.instants import parse_rfc3339
from app.core.model.nodes import LeaseView, NodeView

MAX_VERSION_TEXT: Final = 64
MAX_ITEMS: Final = 20_000
"""Leases or Nodes of one shoot: Kubernetes is made for 5,000."""


_NodeName = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
"""As long as Kubernetes has names; longer ones are there to cost memory."""


class _Name(Struct):
    name: _NodeName


class _Version(Struct):
    git_version: str = msgspec.field(name="gitVersion")


class _LeaseSpec(Struct):
    renew_time: str | None = msgspec.field(default=None, name="renewTime")
    duration: int | None = msgspec.field(default=None, name="leaseDurationSeconds")


class _Lease(Struct):
    metadata: _Name
    spec: _LeaseSpec | None = None


class _LeaseList(Struct):
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[_Lease] | None = None


class _NodeLabels(Struct):
    pool: str | None = msgspec.field(default=None, name="worker.gardener.cloud/pool")
    zone: str | None = msgspec.field(default=None, name="topology.kubernetes.io/zone")


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
    conditions: list[_Condition] | None = None


class _Node(Struct):
    metadata: _NodeMeta
    status: _NodeStatus | None = None


class _NodeList(Struct):
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[_Node] | None = None


_version_decoder: Final = msgspec.json.Decoder(_Version)
_leases_decoder: Final = msgspec.json.Decoder(_LeaseList)
_nodes_decoder: Final = msgspec.json.Decoder(_NodeList)
_NO_LABELS: Final = _NodeLabels()
_IN_PLACE_UPDATE: Final = "InPlaceUpdate"


def version(raw: Raw) -> str:
    """`gitVersion` of an answer to `/version`, as one short printable line."""
    text = trimmed(_version_decoder.decode(raw).git_version, MAX_VERSION_TEXT)
    if not text:
        raise BadAnswer("the answer is no version: gitVersion is empty")
    return text


def leases(raw: Raw) -> Page[LeaseView]:
    """One page of a LeaseList."""
    not_too_many(raw, MAX_ITEMS)
    got = _leases_decoder.decode(raw)
    items = tuple([_lease(item) for item in got.items or ()])
    return page("LeaseList", got.kind, got.metadata, items)


def _lease(lease: _Lease) -> LeaseView:
    spec = lease.spec
    if spec is None:
        return LeaseView(lease.metadata.name, None, None)
    return LeaseView(lease.metadata.name, parse_rfc3339(spec.renew_time), spec.duration)


def nodes(raw: Raw) -> Page[NodeView]:
    """One page of a NodeList."""
    not_too_many(raw, MAX_ITEMS)
    got = _nodes_decoder.decode(raw)
    items = tuple([_node(item) for item in got.items or ()])
    return page("NodeList", got.kind, got.metadata, items)


def _node(node: _Node) -> NodeView:
    meta = node.metadata
    labels = meta.labels or _NO_LABELS
    annotations = meta.annotations
    true = [c for c in (node.status and node.status.conditions) or () if c.status == "True"]
    return NodeView(
        name=meta.name,
        pool=labels.pool,
        zone=labels.zone,
        not_managed=annotations is not None and annotations.not_managed is not UNSET,
        conditions=frozenset([c.type for c in true]),
        in_place_update=next((c.reason for c in true if c.type == _IN_PLACE_UPDATE), None),
    )
