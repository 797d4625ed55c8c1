"""Pods of endpoint probes from raw JSON: what is read, what is defaulted, what is refused, what they weigh."""

import json

import msgspec
import pytest

from app.core.kube.decoding import pod_objects
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339

NS = "shoot--dev--one"
SINCE = "2030-01-01T00:00:00Z"
ID = "containerd://" + "ab" * 32


def status_of(name="main", **changes):
    return {"name": name, "containerID": ID, "state": {"running": {"startedAt": SINCE}}} | changes


def pod_with(*statuses, containers=({"name": "main"},), **changes):
    status = {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": list(statuses)}
    meta = {"name": "etcd-0", "namespace": NS, "uid": "u", "resourceVersion": "7"}
    return {
        "metadata": meta | {"labels": {"role": "main"}},
        "spec": {"containers": list(containers)},
        "status": status,
    } | changes


def read(thing) -> ProbedPod:
    return pod_objects.probed_pod(json.dumps(thing).encode())


def main(*statuses, **changes) -> ProbedContainer:
    return read(pod_with(*statuses, **changes)).containers[0]


def test_a_pod_is_read_with_what_its_probes_depend_on_and_without_labels():
    assert read(pod_with(status_of())) == ProbedPod(
        NS,
        "etcd-0",
        "u",
        "7",
        ip="10.0.0.7",
        phase="Running",
        containers=(ProbedContainer("main", ID, running=True, started_at=parse_rfc3339(SINCE)),),
    )


def test_a_container_without_a_status_has_not_been_created():
    assert main() == ProbedContainer("main")
    assert main(status_of("other")) == ProbedContainer("main")


def test_the_containers_are_those_of_the_spec_in_its_order():
    found = read(
        pod_with(
            status_of("b", containerID="b1"),
            status_of("a", containerID="a1"),
            status_of("debugger"),
            containers=({"name": "a"}, {"name": "b"}),
        )
    )
    assert [(each.name, each.id) for each in found.containers] == [("a", "a1"), ("b", "b1")]


def test_an_init_container_is_no_target():
    found = pod_with(status_of())
    found["spec"]["initContainers"] = [{"name": "wait", "restartPolicy": "Always"}]
    found["status"]["initContainerStatuses"] = [status_of("wait")]
    assert [each.name for each in read(found).containers] == ["main"]


@pytest.mark.parametrize(
    ("state", "running", "started"),
    [
        ({"running": {"startedAt": SINCE}}, True, parse_rfc3339(SINCE)),
        ({"running": {"startedAt": None}}, True, None),
        ({"running": {}}, True, None),
        ({"running": {"startedAt": "yesterday"}}, True, None),
        ({"running": None}, False, None),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, False, None),
        ({"terminated": {"exitCode": 0, "startedAt": SINCE}}, False, None),
        ({}, False, None),
        (None, False, None),
    ],
)
def test_only_a_container_that_runs_has_been_started(state, running, started):
    found = main(status_of(state=state))
    assert (found.running, found.started_at) == (running, started)


def test_a_container_that_waits_for_its_next_start_keeps_its_id():
    found = main(status_of(state={"waiting": {"reason": "CrashLoopBackOff"}}))
    assert (found.id, found.running) == (ID, False)


def ports_of(*ports):
    return dict(main(containers=({"name": "main", "ports": list(ports)},)).ports)


def test_only_named_ports_are_kept():
    assert ports_of(
        {"name": "client", "containerPort": 2379},
        {"containerPort": 2380},
        {"name": "", "containerPort": 2381},
        {"name": None, "containerPort": 2382},
        {"name": "none", "containerPort": None},
        {"name": "low", "containerPort": 0},
        {"name": "high", "containerPort": 65536},
        {"name": "metrics", "containerPort": 65535},
    ) == {"client": 2379, "metrics": 65535}


def test_of_two_ports_of_one_name_the_first_counts():
    both = {"name": "dns", "containerPort": 53}, {"name": "dns", "containerPort": 54}
    assert ports_of(*both) == {"dns": 53}


def test_containers_of_the_same_ports_share_them_and_nobody_can_change_them():
    ports = {"name": "main", "ports": [{"name": "client", "containerPort": 2379}]}
    first, second = main(containers=(ports,)), main(containers=(ports,))
    assert first.ports is second.ports
    with pytest.raises(TypeError):
        first.ports["client"] = 1  # type: ignore[index]  # that is what is tested


@pytest.mark.parametrize(
    ("phase", "kept"), [("Succeeded", "Succeeded"), ("Pending", "Pending"), ("Odd", ""), (None, "")]
)
def test_a_phase_that_nobody_knows_is_none(phase, kept):
    assert read(pod_with(status={"phase": phase})).phase == kept


@pytest.mark.parametrize("stamp", [SINCE, "soon"])
def test_a_pod_with_a_deletion_timestamp_is_being_deleted(stamp):
    meta = {"name": "p", "deletionTimestamp": stamp}
    assert read(pod_with(metadata=meta)).deleting
    assert not read(pod_with(metadata={"name": "p", "deletionTimestamp": None})).deleting


@pytest.mark.parametrize("nothing", [None, {}])
def test_what_go_leaves_out_is_defaulted(nothing):
    found = read(pod_with(metadata={"name": "p"}, spec=nothing, status=nothing))
    assert found == ProbedPod("", "p", "", "")


def test_names_and_addresses_are_lines_of_bounded_length():
    long = "x" * 5000
    found = read(
        pod_with(
            status_of(long, containerID=long),
            containers=(
                {"name": long, "ports": [{"name": long, "containerPort": 1}]},
                {"name": None},
            ),
        )
        | {}
    )
    (only,) = found.containers
    assert max(len(only.name), len(only.id), *map(len, only.ports)) <= 253
    told = pod_with()
    told["status"]["podIP"] = "10.0.0.1\r\nHost: evil"
    assert "\n" not in read(told).ip


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": None},
        {"metadata": {}},
        {"metadata": {"name": 7}},
        {"spec": []},
        {"spec": {"containers": "main"}},
        {"spec": {"containers": [{"name": "m", "ports": [{"containerPort": "http"}]}]}},
        {"status": {"podIP": 7}},
        {"status": {"containerStatuses": [{"state": "running"}]}},
    ],
)
def test_what_is_no_pod_is_refused(broken):
    with pytest.raises(msgspec.MsgspecError):
        read(pod_with() | broken)
