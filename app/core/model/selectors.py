"""Label selectors, as Kubernetes defines them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never


class Operator(StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(NamedTuple):
    """One condition on one label; an entry of `matchLabels` becomes a requirement with In and a single value."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether these labels fulfil the requirement; as in Kubernetes, a missing label fulfils NotIn."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case _:
                assert_never(self.operator)

    def __str__(self) -> str:
        """The requirement in the syntax of the `labelSelector` query parameter."""
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={values}"
            case Operator.IN:
                return f"{self.key} in ({values})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({values})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case _:
                assert_never(self.operator)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; without any requirement it matches every object."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(each.matches(labels) for each in self.requirements)

    def __str__(self) -> str:
        """The `labelSelector` parameter; empty for the one that matches everything."""
        return ",".join(str(each) for each in self.requirements)
