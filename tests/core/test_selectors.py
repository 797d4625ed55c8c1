"""Label selectors choose what Kubernetes would choose, and are written as it reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.names import LabelSelector, Operator, Requirement
from app.simulation.server.reading import label_selector

IN, NOT_IN, EXISTS, ABSENT = Operator


def requirement(operator, *values, key="role"):
    return Requirement(key, operator, frozenset(values))


# As a labelSelector parameter.


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (requirement(IN, "a"), "role=a"),
        (requirement(IN, ""), "role="),
        (requirement(IN, "b", "a"), "role in (a,b)"),
        (requirement(IN, "a", ""), "role in (,a)"),
        (requirement(NOT_IN, "b", "a"), "role notin (a,b)"),
        (requirement(NOT_IN, ""), "role notin ()"),  # a server reads the empty value in it
        (requirement(EXISTS), "role"),
        (requirement(ABSENT), "!role"),
    ],
)
def test_a_requirement_is_written_as_the_server_reads_it(asked, text):
    assert str(asked) == text


KEYS = st.sampled_from(["role", "app", "gardener.cloud/role"])
VALUES = st.sampled_from(["", "a", "b", "c-1"])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([IN, NOT_IN]), st.frozensets(VALUES, min_size=1)),
    st.builds(Requirement, KEYS, st.sampled_from([EXISTS, ABSENT])),
)
SELECTORS = st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=4).map(tuple))


def chosen(asked, labels):
    """By what the documentation of labels says of each operator, for the sets of values that a label has."""
    has = {labels[asked.key]} if asked.key in labels else set()
    rules = {
        IN: len(has & asked.values) == 1,
        NOT_IN: not has & asked.values,
        EXISTS: len(has) == 1,
        ABSENT: not has,
    }
    return rules[asked.operator]


@given(SELECTORS, LABELS)
def test_a_selector_chooses_what_all_its_requirements_choose(selector, labels):
    assert selector.matches(labels) is all(chosen(each, labels) for each in selector.requirements)


@given(SELECTORS, LABELS)
def test_the_written_selector_chooses_the_same_on_a_server(selector, labels):
    assert label_selector(str(selector)).matches(labels) is selector.matches(labels)
