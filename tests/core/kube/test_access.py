"""Which rights endpoint mode and probes need, and a process beside those of its loops (threat T16)."""

from dataclasses import replace

import pytest

from app.core.kube.reviews import permissions_needed, process_permissions, weeder_permissions
from app.core.model.endpoints import EndpointProbeSpec, Exec, TcpSocket
from app.core.model.names import LabelSelector
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import Permission

DEPENDENT = DependentPolicy(ResourceRef("apps/v1", "Deployment", "kube-controller-manager"))
LEASE_MODE = ProberPolicy("kubeconfig", (DEPENDENT,))
ENDPOINT_MODE = replace(LEASE_MODE, kubeconfig_secret="internal", external_secret="external")
OF_HOST = EndpointProbeSpec("host", tcp_socket=TcpSocket(443), host="example.org")
OF_PODS = EndpointProbeSpec("pods", tcp_socket=TcpSocket(2379), pods=LabelSelector())
COMMAND = EndpointProbeSpec("exec", exec=Exec(("true",)), pods=LabelSelector())
WATCH_PODS = {
    Permission("list", "", "pods", feature="endpoint-pods"),
    Permission("watch", "", "pods", feature="endpoint-pods"),
}
EXEC = {
    Permission("get", "", "pods/exec", feature="endpoint-exec"),
    Permission("create", "", "pods/exec", feature="endpoint-exec"),
}


def more_than_lease_mode(*probes, **options):
    needed = permissions_needed(replace(LEASE_MODE, endpoint_probes=probes), {}, **options)
    assert len(needed) == len(set(needed))
    return set(needed) - set(
        permissions_needed(LEASE_MODE, {}, dry_run=bool(options.get("dry_run")))
    )


def test_endpoint_mode_reads_both_secrets_by_name_and_no_machines():
    needed = set(permissions_needed(ENDPOINT_MODE, {}))
    secrets = {(each.verb, each.name) for each in needed if each.resource == "secrets"}
    verbs = ("get", "list", "watch")
    assert secrets == {(verb, name) for verb in verbs for name in ("internal", "external")}
    assert "machines" not in {each.resource for each in needed}


def test_lease_mode_reads_machines_and_its_only_secret():
    needed = set(permissions_needed(LEASE_MODE, {}))
    machines = {each.verb for each in needed if each.resource == "machines"}
    assert machines == {"get", "list", "watch"}
    assert {each.name for each in needed if each.resource == "secrets"} == {"kubeconfig"}


def test_endpoint_mode_needs_no_right_but_that_to_the_other_secret_that_lease_mode_does_not():
    others = [
        {each for each in permissions_needed(policy, {}) if each.resource != "secrets"}
        for policy in (LEASE_MODE, ENDPOINT_MODE)
    ]
    assert others[1] < others[0]


def test_probes_of_hosts_need_no_right():
    assert more_than_lease_mode(OF_HOST, allow_exec=True) == set()


@pytest.mark.parametrize("options", [{}, {"allow_exec": True}, {"dry_run": True}])
def test_probes_of_pods_watch_pods_and_protection_goes_on_without(options):
    assert more_than_lease_mode(OF_HOST, OF_PODS, OF_PODS, **options) == WATCH_PODS


@pytest.mark.parametrize("dry_run", [True, False])
def test_commands_need_a_right_of_their_own_where_they_are_allowed(dry_run):
    needed = more_than_lease_mode(COMMAND, allow_exec=True, dry_run=dry_run)
    assert needed == WATCH_PODS | EXEC


def test_commands_that_are_not_allowed_need_none():
    assert more_than_lease_mode(COMMAND) == WATCH_PODS


GROUP = "dependency-watchdog.gardener.cloud"
READ = ("get", "list", "watch")


def custom(kind, *verbs, part=""):
    return {Permission(verb, GROUP, kind + part, feature=kind) for verb in verbs}


REVIEWS = {
    Permission("create", "authentication.k8s.io", "tokenreviews", feature="token-review"),
    Permission("create", "authorization.k8s.io", "subjectaccessreviews", feature="token-review"),
}
SLICE = {
    Permission(verb, "discovery.k8s.io", "endpointslices", "leader", "garden", "leader-address")
    for verb in ("get", "update")
}
ALL = custom("pauses", *READ, "create", "patch", "delete")


def test_every_process_reads_and_writes_pauses_and_the_prober_scale_requests_and_each_status():
    assert set(process_permissions("garden")) == ALL
    requests = custom("scalerequests", *READ, "create", "delete")
    statuses = custom("pauses", "patch", part="/status")
    statuses |= custom("scalerequests", "patch", part="/status")
    found = {each for each in permissions_needed(LEASE_MODE, {}) if each.group == GROUP}
    assert found == requests | statuses
    found = {
        each for each in permissions_needed(LEASE_MODE, {}, dry_run=True) if each.group == GROUP
    }
    assert found == custom("scalerequests", *READ)


def test_reviews_are_needed_where_callers_are_reviewed():
    assert set(process_permissions("garden", reviews=True)) == ALL | REVIEWS


def test_the_slice_is_needed_where_one_is_configured():
    assert set(process_permissions("garden", leader_slice="leader")) == ALL | SLICE


def test_a_dry_run_reads_and_reviews_and_writes_nothing():
    needed = process_permissions("garden", reviews=True, leader_slice="leader", dry_run=True)
    assert set(needed) == custom("pauses", *READ) | REVIEWS


@pytest.mark.parametrize("dry_run", [True, False])
def test_each_of_them_is_of_a_feature_so_that_protection_goes_on_without(dry_run):
    needed = process_permissions("garden", reviews=True, leader_slice="leader", dry_run=dry_run)
    assert all(each.feature for each in needed)


LEASE = ("garden", "dwd")


@pytest.mark.parametrize(
    "needed",
    [
        permissions_needed(LEASE_MODE, {}, lease=LEASE, dry_run=True),
        weeder_permissions(lease=LEASE, dry_run=True),
    ],
    ids=["prober", "weeder"],
)
def test_a_dry_run_of_a_loop_needs_no_right_to_write(needed):
    assert {each.verb for each in needed} == {"get", "list", "watch"}


def test_without_an_election_no_lease_is_needed():
    needed = (*permissions_needed(LEASE_MODE, {}), *weeder_permissions())
    assert "leases" not in {each.resource for each in needed}
