"""The scalable resources that a shoot's control plane depends on being right about its nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from app.core.model import annotations as ann

ONE_PATCH_KINDS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of `apps/v1` whose annotations and `spec.replicas` go in one merge patch of the object itself."""


class ResourceRef(NamedTuple):
    """Names a resource within a control-plane namespace; a tuple, as every look has it hashed dozens of times."""

    api_version: str
    kind: str
    name: str

    @property
    def has_replicas(self) -> bool:
        """Whether `spec.replicas` of the object itself is what is scaled (else its `scale` subresource)."""
        return self.api_version == "apps/v1" and self.kind in ONE_PATCH_KINDS

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Direction(StrEnum):
    """Which way a flow scales."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A dependent as the seed shows it."""

    ref: ResourceRef
    namespace: str
    uid: str
    resource_version: str
    replicas: int | None
    """`spec.replicas`; None where the kind does not have it and `scale` was not read."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Ours only (`annotations.OURS`)."""
    ready: int | None = 0
    """`status.readyReplicas`; None where the kind does not have it."""
    current: int | None = 0
    """`status.replicas`; None where the kind does not have it."""
    generation: int = 0
    observed_generation: int | None = 0
    """None where the kind does not have it."""

    @property
    def protected(self) -> bool:
        """Whether it carries the meltdown key."""
        return ann.protected(self.annotations)

    @property
    def observed(self) -> bool:
        """Whether its controller has seen the latest spec."""
        return self.observed_generation is None or self.observed_generation >= self.generation


@dataclass(frozen=True, slots=True)
class ScaleView:
    """The answer of a `scale` subresource."""

    resource_version: str
    replicas: int
    current: int | None


@dataclass(frozen=True, slots=True)
class Patch:
    """One merge patch of a dependent: what to write, as data."""

    resource_version: str
    """The version that the decision was taken on: a newer one makes the write fail with a conflict."""
    replicas: int | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """None removes a key."""

    def body(self) -> dict[str, object]:
        """The merge patch as JSON data."""
        metadata: dict[str, object] = {"resourceVersion": self.resource_version}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        body: dict[str, object] = {"metadata": metadata}
        if self.replicas is not None:
            body["spec"] = {"replicas": self.replicas}
        return body
