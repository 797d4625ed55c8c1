"""The facts of a world, as plain records: what was read, what was written, what is true of each shoot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.core.model import workloads as ann
from app.core.model.workloads import ResourceRef
from app.simulation.store import Object, ObjectKey
from app.simulation.views import ref_of, size_field, workload_view


@dataclass(frozen=True, slots=True)
class Reading:
    """A complete, consistent list of Leases, as a server gave it to a process."""

    sent: float
    answered: float
    late: bool
    """Enough candidates were truly late to scale down."""
    lost: bool
    """So many were truly lost that nothing may be scaled up."""
    detail: str


@dataclass(slots=True)
class Knowledge:
    """What one process was told about one shoot."""

    readings: list[Reading] = field(default_factory=list)
    nodes: list[float] = field(default_factory=list)
    """When it was answered consistent lists of Nodes."""
    first: float | None = None
    """When it was first answered a list of Leases, or again after it had none for long."""


class Dependent(NamedTuple):
    """A dependent as it is, as far as it matters."""

    ref: ResourceRef
    replicas: int
    annotations: Mapping[str, str]

    @property
    def saved(self) -> int | None:
        """The saved count."""
        return ann.saved_count(self.annotations)

    @property
    def protected(self) -> bool:
        """Whether it carries the meltdown key."""
        return ann.protected(self.annotations)

    @property
    def ignored(self) -> bool:
        """Whether somebody wants it to be left alone."""
        return ann.ignore_scaling(self.annotations) is ann.Ignore.YES

    @classmethod
    def of(cls, obj: Object) -> "Dependent":
        """From the JSON data."""
        return cls(ref_of(obj), obj["spec"][size_field(obj)], dict(workload_view(obj).annotations))


class Change(NamedTuple):
    """A dependent has become another one."""

    key: ObjectKey
    before: Dependent | None
    after: Dependent | None
    process: str | None
    """Which of ours did it."""


class OverrideChange(NamedTuple):
    """A Pause or a ScaleRequest has become another one, or is gone."""

    key: ObjectKey
    before: Object | None
    after: Object | None
    process: str | None
    """Which of ours did it."""

    @property
    def phases(self) -> tuple[str, str]:
        """Those of a ScaleRequest, before and after."""
        found = [((each or {}).get("status") or {}).get("phase") for each in self[1:3]]
        return found[0] or "Pending", found[1] or "Pending"


class StatusSending(NamedTuple):
    """A process is sending the status of a Pause or a ScaleRequest now."""

    process: str
    key: ObjectKey
    status: Object


@dataclass(slots=True)
class Standing:
    """What is true of one shoot."""

    clocks_off: bool = False
    """Some node's clock is, or was, not right."""
    away_at: float = float("-inf")
    """When its server or its storage was last away."""
    grace: float | None = None
    """What the Shoot asked for when it could last be read; None: nothing."""
    out_at: dict[str, float] = field(default_factory=dict)
    """When each node was last out of reach."""
    unsettled_until: float = float("-inf")
    """Until then a process may have other candidates in mind."""
    not_probed_since: float | None = None
    begun: list[tuple[float, str]] = field(default_factory=list)
    """When protections began, and by which process."""
    ours: set[ResourceRef] = field(default_factory=set)
    """Those that are at 0 by our hand."""


def key(namespace: str, ref: ResourceRef) -> ObjectKey:
    """Where the seed keeps a dependent."""
    return ObjectKey(ref.kind, namespace, ref.name)
