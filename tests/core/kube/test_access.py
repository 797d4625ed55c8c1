"""Which rights a process needs beside those of its loops (threats.md, T16)."""

import pytest

from app.core.kube.access import process_permissions
from app.core.model.overrides import OVERRIDES
from app.core.ports import Permission


def overrides(*verbs):
    rights = [
        Permission(verb, "", "configmaps", "" if verb == "create" else OVERRIDES, "garden")
        for verb in verbs
    ]
    return {
        Permission(each.verb, each.group, each.resource, each.name, each.namespace, "overrides")
        for each in rights
    }


REVIEWS = {
    Permission("create", "authentication.k8s.io", "tokenreviews", feature="token-review"),
    Permission("create", "authorization.k8s.io", "subjectaccessreviews", feature="token-review"),
}
SLICE = {
    Permission(verb, "discovery.k8s.io", "endpointslices", "leader", "garden", "leader-address")
    for verb in ("get", "update")
}
ALL = overrides("get", "list", "watch", "update", "create")


def test_the_overrides_are_read_and_updated_by_name_and_created():
    assert set(process_permissions("garden")) == ALL


def test_reviews_are_needed_where_callers_are_reviewed():
    assert set(process_permissions("garden", reviews=True)) == ALL | REVIEWS


def test_the_slice_is_needed_where_one_is_configured():
    assert set(process_permissions("garden", leader_slice="leader")) == ALL | SLICE


def test_a_dry_run_reads_and_reviews_and_writes_nothing():
    needed = process_permissions("garden", reviews=True, leader_slice="leader", dry_run=True)
    assert set(needed) == overrides("get", "list", "watch") | REVIEWS


@pytest.mark.parametrize("dry_run", [True, False])
def test_each_of_them_is_of_a_feature_so_that_protection_goes_on_without(dry_run):
    needed = process_permissions("garden", reviews=True, leader_slice="leader", dry_run=dry_run)
    assert all(each.feature for each in needed)
    assert "patch" not in {each.verb for each in needed}
    assert "delete" not in {each.verb for each in needed}
