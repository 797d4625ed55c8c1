"""LabelSelectors in a file, refused where Kubernetes would refuse them; nodes in, selectors out.

A matching label is read as the requirement In with one value: the two mean the same.
"""

from collections.abc import Iterator
from typing import Final

from app.core.config.fields import Keys, Naming, Section, entries, mapping
from app.core.config.findings import Findings
from app.core.config.scalars import label_key, label_key_of, label_value, operator
from app.core.config.yaml_nodes import NodeKind, kind
from app.core.model.selectors import LabelSelector, Operator, Requirement

SELECTOR_KEYS: Final = Keys(known=("matchLabels", "matchExpressions"), closed=True)
REQUIREMENT_KEYS: Final = Keys(known=("key", "operator", "values"), closed=True)
"""An unknown key is never overlooked here: without what it says, more pods would match than are meant."""


def read_selector(section: Section, findings: Findings) -> LabelSelector:
    """The selector that a section with `SELECTOR_KEYS` describes; what is wrong of it is noted and left out."""
    return LabelSelector((*_labels(section, findings), *_expressions(section, findings)))


def _labels(section: Section, findings: Findings) -> Iterator[Requirement]:
    node = section.value("matchLabels", mapping, None)
    naming = Naming.of_labels(section.place("matchLabels"))
    found = {} if node is None else entries(node, naming, findings)
    for text, entry in found.items():
        key = findings.attempt(entry.place, label_key, text)
        value = findings.attempt(entry.place, label_value, entry.node)
        if key is not None and value is not None:
            yield Requirement(key, Operator.IN, frozenset({value}))


def _expressions(section: Section, findings: Findings) -> Iterator[Requirement]:
    for each in section.sections("matchExpressions", REQUIREMENT_KEYS, required=False):
        key = each.required("key", label_key_of)
        compares = each.required("operator", operator)
        read = each.attempts("values", label_value, required=False)
        if compares is None:
            continue
        _check_count(each, compares, len(read), findings)
        if key is not None:
            values = frozenset(value for value in read if value is not None)
            yield Requirement(key, compares, values)


def _check_count(section: Section, compares: Operator, count: int, findings: Findings) -> None:
    needed = compares in (Operator.IN, Operator.NOT_IN)
    node = section.node("values")
    if node is not None and kind(node) is not NodeKind.LIST:
        return  # which is a mistake already
    if needed and not count:
        message = f"must have at least one value with the operator {compares}"
        findings.mistake(section.place("values"), message)
    if not needed and count:
        message = f"must be absent or empty with the operator {compares}"
        findings.mistake(section.place("values"), message)
