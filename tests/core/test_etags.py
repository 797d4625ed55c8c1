"""ETags of dependents, and If-Match as RFC 9110 has it."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import workloads as ann
from app.core.model.workloads import ResourceRef, WorkloadView, list_etag, matches, resource_etag

KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
MCM = ResourceRef("apps/v1", "Deployment", "machine-controller-manager")
VIEW = WorkloadView(KCM, "shoot--a", "uid-1", "7", 2, {ann.REPLICAS: "2"}, ready=2, current=2)
OTHER = replace(VIEW, ref=MCM, uid="uid-2")
IF_MATCH = yaml.safe_load((Path(__file__).parent / "if_match.yaml").read_text())


@pytest.mark.parametrize(
    "changed",
    [
        {"uid": "uid-9"},
        {"replicas": 0},
        {"replicas": None},
        {"annotations": {}},
        {"annotations": {ann.REPLICAS: "3"}},
        {"annotations": {ann.REPLICAS: "2", ann.MELTDOWN: ""}},
    ],
)
def test_what_a_decision_rests_on_changes_both_etags(changed):
    after = replace(VIEW, **changed)
    assert resource_etag(after) != resource_etag(VIEW)
    assert list_etag({KCM: after, MCM: OTHER}) != list_etag({KCM: VIEW, MCM: OTHER})


@pytest.mark.parametrize(
    "changed",
    [
        {"ready": 0},
        {"current": 1},
        {"resource_version": "8"},
        {"generation": 5, "observed_generation": 4},
    ],
)
def test_status_changes_neither(changed):
    after = replace(VIEW, **changed)
    assert resource_etag(after) == resource_etag(VIEW)
    assert list_etag({KCM: after}) == list_etag({KCM: VIEW})


def test_the_order_of_annotations_and_of_resources_does_not_matter():
    one = replace(VIEW, annotations={ann.REPLICAS: "2", ann.MELTDOWN: ""})
    other = replace(VIEW, annotations={ann.MELTDOWN: "", ann.REPLICAS: "2"})
    assert resource_etag(one) == resource_etag(other)
    assert list_etag({KCM: VIEW, MCM: OTHER}) == list_etag({MCM: OTHER, KCM: VIEW})


def test_which_one_is_missing_matters():
    tags = {
        list_etag({KCM: VIEW, MCM: None}),
        list_etag({KCM: None, MCM: OTHER}),
        list_etag({KCM: None, MCM: None}),
        list_etag({KCM: VIEW, MCM: OTHER}),
    }
    assert len(tags) == 4


def test_two_that_change_places_are_not_the_same():
    swapped = {KCM: replace(OTHER, ref=KCM), MCM: replace(VIEW, ref=MCM)}
    assert list_etag(swapped) != list_etag({KCM: VIEW, MCM: OTHER})


def test_an_etag_is_strong_and_quoted():
    tag = resource_etag(VIEW)
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert tag[1:-1].isalnum()
    assert matches(tag, tag)


@pytest.mark.parametrize("if_match", IF_MATCH["met"])
def test_if_match_asks_for_one_of_its_strong_etags(if_match):
    assert matches(if_match, '"a"', '"b"')


@pytest.mark.parametrize("if_match", IF_MATCH["not met"])
def test_nothing_else_is_met(if_match):
    assert not matches(if_match, '"a"', '"b"')


def test_where_there_is_nothing_nothing_matches():
    assert not matches("*")
    assert not matches('"a"')


@given(
    st.lists(st.sampled_from(["a", "b", "c,d", "", "x!"]), max_size=5), st.text(" \t", max_size=2)
)
def test_any_list_of_etags_is_met_by_each_of_its_members_and_by_no_other(tags, space):
    quoted = [f'"{each}"' for each in tags]
    header = f"{space},{space}".join(quoted)
    assert all(matches(header, each) for each in quoted)
    assert not matches(header, '"another"')


@given(st.text(max_size=60))
def test_no_header_whatever_raises(text):
    assert matches(text, '"a"') in {True, False}
