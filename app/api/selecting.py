"""Label selectors as the files spell them; pure."""

from collections import Counter

from app.api import schemas
from app.core.model.selectors import LabelSelector, Operator, Requirement


def selector(found: LabelSelector) -> schemas.PodSelector:
    """One value for a label is `matchLabels`, however it was written; the same label twice has to be spelt out."""
    times = Counter(each.key for each in found.requirements)
    labels = {
        each.key: next(iter(each.values))
        for each in found.requirements
        if _is_label(each) and times[each.key] == 1
    }
    others = [each for each in found.requirements if each.key not in labels]
    return schemas.PodSelector(
        match_labels=labels, match_expressions=[_expression(each) for each in others]
    )


def _is_label(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN and len(requirement.values) == 1


def _expression(requirement: Requirement) -> schemas.MatchExpression:
    return schemas.MatchExpression(
        key=requirement.key, operator=requirement.operator, values=sorted(requirement.values)
    )
