"""The nodes of a shoot, one by one: who counts and why not, and what each lease says; pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.api import schemas
from app.api.times import time
from app.core.model.nodes import NodeView
from app.core.model.probing import Judgement
from app.prober.rules.candidates import Candidacy
from app.prober.status import ShootStatus

NOT_READ: Final = "NotRead"
NO_LEASE: Final = "NoLease"
MISSING: Final = "Missing"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, or a lease whose node nobody has read yet."""

    name: str
    node: NodeView | None
    judgement: Judgement | None
    candidate: bool | None
    reason: str | None

    def shown(self) -> schemas.Node:
        """In the shape of the API."""
        node, lease = self.node, self.judgement
        age = None if lease is None else lease.age
        return schemas.Node(
            name=self.name,
            pool=None if node is None else node.pool,
            zone=None if node is None else node.zone,
            candidate=self.candidate,
            reason=self.reason,
            lease=MISSING if lease is None else lease.state,
            renew_time=None if lease is None else time(lease.renew_time),
            age_seconds=None if age is None else round(age, 3),
            clock_offset_seconds=None if lease is None else round(lease.offset, 3),
        )


def rows(status: ShootStatus) -> list[NodeRow]:
    """Every node as of the last reading that had Nodes, with its lease as of the last reading."""
    leases = {each.name: each for each in status.judgements}
    candidacy = status.candidacy
    if candidacy is None:
        return [_not_read(each) for each in status.judgements]
    known = [_read(node, leases.get(node.name), candidacy) for node in candidacy.nodes]
    return known + [_not_read(each) for each in _newer(status, candidacy)]


def _read(node: NodeView, lease: Judgement | None, candidacy: Candidacy) -> NodeRow:
    exclusion = candidacy.of(node.name)
    if exclusion is not None:
        return NodeRow(node.name, node, lease, candidate=False, reason=str(exclusion))
    if lease is None:
        return NodeRow(node.name, node, None, candidate=False, reason=NO_LEASE)
    return NodeRow(node.name, node, lease, candidate=True, reason=None)


def _not_read(lease: Judgement) -> NodeRow:
    return NodeRow(lease.name, None, lease, candidate=None, reason=NOT_READ)


def _newer(status: ShootStatus, candidacy: Candidacy) -> Iterator[Judgement]:
    """Leases of nodes that came after Nodes were read; one that was not renewed since then is of a node that went."""
    known = candidacy.exclusions
    for each in status.judgements:
        if each.name in known:
            continue
        if each.renew_time is None or each.renew_time + each.offset > candidacy.at:
            yield each
