"""EndpointSlices, and pods as the weeder and endpoint probes read them: what is read, defaulted and refused."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from app.core.errors import BadAnswer
from app.core.kube.decoding import pod_objects
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339
from app.core.model.weeding import ContainerView, OwnerView, SliceEndpoint
from tests.core.kube.weeding import NS, a_slice, endpoint, up

OBJECTS = yaml.safe_load((Path(__file__).parent / "objects.yaml").read_text())


def raw(thing) -> bytes:
    return json.dumps(thing).encode()


def endpoints(*given):
    return pod_objects.endpoint_slice(raw(a_slice("s", 1, *given))).endpoints


def test_a_slice_is_read_with_its_service_and_the_pods_behind_it():
    got = pod_objects.endpoint_slice(raw(up(version=7)))
    assert (got.namespace, got.name, got.resource_version) == (NS, "etcd-1", "7")
    assert got.service == "etcd-main-client"
    assert got.endpoints == (SliceEndpoint(ready=True, pod="etcd-main-0"),)


@pytest.mark.parametrize(("conditions", "ready"), OBJECTS["conditions of an endpoint"])
def test_an_endpoint_that_does_not_tell_whether_it_is_ready_is(conditions, ready):
    assert endpoints(endpoint() | {"conditions": conditions})[0].ready is ready


@pytest.mark.parametrize(("target", "pod"), OBJECTS["targets of an endpoint"])
def test_only_a_pod_of_the_same_namespace_is_behind_an_endpoint(target, pod):
    assert endpoints(endpoint() | {"targetRef": target}) == (SliceEndpoint(ready=True, pod=pod),)


def test_an_endpoint_of_which_nothing_is_told_is_ready_and_nobodys():
    assert endpoints({}) == (SliceEndpoint(ready=True),)


@pytest.mark.parametrize("endpoints", [{"endpoints": None}, {"endpoints": []}, {}])
def test_a_slice_may_have_no_endpoints(endpoints):
    whole = up()
    del whole["endpoints"]
    assert pod_objects.endpoint_slice(raw(whole | endpoints)).endpoints == ()


@pytest.mark.parametrize("labels", [None, {}, {"a": "b"}, {"kubernetes.io/service-name": None}])
def test_a_slice_without_the_label_belongs_to_no_service(labels):
    whole = up()
    whole["metadata"]["labels"] = labels
    assert pod_objects.endpoint_slice(raw(whole)).service == ""


def pod(status=None, **meta):
    named = {"name": "p", "namespace": NS, "uid": "u", "resourceVersion": "5"}
    return pod_objects.pod(raw({"metadata": named | meta, "status": status}))


# As a kubelet writes it.
BACK_OFF = "back-off 1m20s restarting failed container=main pod=p_shoot--a--b(u)"


def container(name="main", reason="CrashLoopBackOff", restarts=4, message=BACK_OFF):
    return {
        "name": name,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": "1970-01-01T00:01:40Z"}},
        "restartCount": restarts,
        "ready": False,
    }


def test_a_pod_is_read_with_what_identifies_it():
    got = pod(labels={"role": "apiserver", "empty": None})
    assert (got.namespace, got.name, got.uid, got.resource_version) == (NS, "p", "u", "5")
    assert got.labels == {"role": "apiserver", "empty": ""}


def test_a_container_is_read_with_what_it_waits_for_and_since_when():
    status = {
        "containerStatuses": [container()],
        "initContainerStatuses": [container("init", "PodInitializing", 0, None)],
    }
    assert pod(status).containers == (
        ContainerView("init", "PodInitializing", 0, 100.0, init=True),
        ContainerView("main", "CrashLoopBackOff", 4, 100.0, backoff=80.0),
    )


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("10s", 10.0), ("5m0s", 300.0), ("1s", 1.0), ("1m12.5s", 72.5), ("250ms", 0.25), ("0s", 0.0)],
)
def test_the_back_off_is_what_the_kubelet_says(told, seconds):
    message = BACK_OFF.replace("1m20s", told)
    got = pod({"containerStatuses": [container(message=message)]}).containers[0]
    assert got.backoff == seconds


@pytest.mark.parametrize(
    "message",
    [
        None,
        "",
        "back-off restarting failed container",
        "back-off soon restarting failed container=main",
        "back-off -10s restarting failed container=main",
        "back-off 10 restarting failed container=main",
        'Back-off pulling image "x" after 10s restarting failed container=main',
        f"back-off {'9' * 30}h restarting failed container=main",
        f"back-off {'9' * 20}h restarting failed container=main",
    ],
)
def test_a_message_that_names_no_back_off_leaves_it_unknown(message):
    got = pod({"containerStatuses": [container(message=message)]}).containers[0]
    assert got.backoff is None
    assert got.crash_loops


def test_what_a_container_says_that_waits_for_something_else_is_no_back_off():
    got = pod({"containerStatuses": [container(reason="ImagePullBackOff")]}).containers[0]
    assert got.backoff is None


@pytest.mark.parametrize(("state", "waiting"), OBJECTS["states of a container"])
def test_whether_a_container_waits(state, waiting):
    assert pod({"containerStatuses": [{"name": "c", "state": state}]}).containers == (
        ContainerView("c", waiting),
    )


@pytest.mark.parametrize("last", OBJECTS["last states without an exit"])
def test_a_last_exit_that_is_not_told_is_none(last):
    given = container() | {"lastState": last, "restartCount": None}
    got = pod({"containerStatuses": [given]}).containers[0]
    assert got.last_exit is None
    assert got.restarts is None
    assert got.crash_loops


@pytest.mark.parametrize("status", OBJECTS["statuses of a pod without containers"])
def test_a_pod_without_status_has_no_containers_and_never_was_ready(status):
    got = pod(status)
    assert got.containers == ()
    assert got.ready_since is None


def test_a_pod_that_leaves_its_status_out_is_read():
    got = pod_objects.pod(raw({"metadata": {"name": "p"}}))
    assert (got.name, got.namespace, got.uid, got.resource_version) == ("p", "", "", "")


def owner(name, *, controller):
    given = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}"}
    return given if controller is None else given | {"controller": controller}


def test_only_the_reference_that_controls_it_is_the_owner():
    references = [
        owner("a", controller=None),
        owner("b", controller=False),
        owner("c", controller=True),
    ]
    assert pod(ownerReferences=references).owner == OwnerView("apps/v1", "ReplicaSet", "c", "uid-c")
    for none in (references[:2], None, []):
        assert pod(ownerReferences=none).owner is None


@pytest.mark.parametrize(
    ("stamp", "terminating"), [("2026-01-01T00:00:00Z", True), (None, False), ("", False)]
)
def test_a_pod_with_a_deletion_timestamp_is_terminating(stamp, terminating):
    assert pod(deletionTimestamp=stamp).terminating is terminating


@pytest.mark.parametrize(("condition", "since"), OBJECTS["conditions of a pod"])
def test_since_when_a_pod_is_ready(condition, since):
    assert pod({"conditions": [{"type": "Scheduled"}, condition]}).ready_since == since


@pytest.mark.parametrize("kind", ["Pod", "Status"])
def test_a_deletion_is_answered_with_the_pod_or_a_status(kind):
    pod_objects.accepted(raw({"kind": kind, "metadata": {}, "status": "Success"}))


@pytest.mark.parametrize("answer", [{}, {"kind": None}, {"kind": "Node"}])
def test_anything_else_is_no_answer_to_a_deletion(answer):
    with pytest.raises(BadAnswer):
        pod_objects.accepted(raw(answer))


def test_a_pod_with_more_labels_than_anybody_needs_is_not_decoded():
    """Selectors read all labels of a pod, and nobody but us limits them: 1.3 MB take 60 ms."""
    with pytest.raises(BadAnswer, match="bytes of labels"):
        pod(labels={f"label-{number}": "x" for number in range(5_000)})


# As endpoint probes read them: what they weigh, too.


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


def probed(thing) -> ProbedPod:
    return pod_objects.probed_pod(raw(thing))


def main(*statuses, **changes) -> ProbedContainer:
    return probed(pod_with(*statuses, **changes)).containers[0]


def test_a_pod_is_read_with_what_its_probes_depend_on_and_without_labels():
    assert probed(pod_with(status_of())) == ProbedPod(
        NS,
        "etcd-0",
        "u",
        "7",
        ip="10.0.0.7",
        phase="Running",
        containers=(ProbedContainer("main", ID, running=True, started_at=parse_rfc3339(SINCE)),),
    )


@pytest.mark.parametrize("statuses", [(), (status_of("other"),)], ids=["none", "another's"])
def test_a_container_without_a_status_has_not_been_created(statuses):
    assert main(*statuses) == ProbedContainer("main")


def test_the_containers_are_those_of_the_spec_in_its_order():
    found = probed(
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
    assert [each.name for each in probed(found).containers] == ["main"]


@pytest.mark.parametrize(("state", "running", "started"), OBJECTS["states of a probed container"])
def test_only_a_container_that_runs_has_been_started_and_each_keeps_its_id(state, running, started):
    found = main(status_of(state=state))
    assert (found.id, found.running, found.started_at) == (ID, running, started)


def ports_of(*ports):
    return dict(main(containers=({"name": "main", "ports": list(ports)},)).ports)


def test_only_named_ports_are_kept_and_of_two_of_one_name_the_first():
    assert ports_of(
        {"name": "client", "containerPort": 2379},
        {"name": "client", "containerPort": 2380},
        {"containerPort": 2380},
        {"name": "", "containerPort": 2381},
        {"name": None, "containerPort": 2382},
        {"name": "none", "containerPort": None},
        {"name": "low", "containerPort": 0},
        {"name": "high", "containerPort": 65536},
        {"name": "metrics", "containerPort": 65535},
    ) == {"client": 2379, "metrics": 65535}


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
    assert probed(pod_with(status={"phase": phase})).phase == kept


@pytest.mark.parametrize("stamp", [SINCE, "soon"])
def test_a_pod_with_a_deletion_timestamp_is_being_deleted(stamp):
    assert probed(pod_with(metadata={"name": "p", "deletionTimestamp": stamp})).deleting
    assert not probed(pod_with(metadata={"name": "p", "deletionTimestamp": None})).deleting


@pytest.mark.parametrize("nothing", [None, {}])
def test_what_go_leaves_out_is_defaulted(nothing):
    found = probed(pod_with(metadata={"name": "p"}, spec=nothing, status=nothing))
    assert found == ProbedPod("", "p", "", "")


def test_names_and_addresses_are_lines_of_bounded_length():
    long = "x" * 5000
    found = probed(
        pod_with(
            status_of(long, containerID=long),
            containers=(
                {"name": long, "ports": [{"name": long, "containerPort": 1}]},
                {"name": None},
            ),
        )
    )
    (only,) = found.containers
    assert max(len(only.name), len(only.id), *map(len, only.ports)) <= 253
    told = pod_with()
    told["status"]["podIP"] = "10.0.0.1\r\nHost: evil"
    assert "\n" not in probed(told).ip


@pytest.mark.parametrize("broken", OBJECTS["parts that are none of a pod"])
def test_what_is_no_pod_is_refused(broken):
    with pytest.raises(msgspec.MsgspecError):
        probed(pod_with() | broken)
