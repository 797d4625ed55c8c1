"""What kubectl prints of pods and slices."""

import pytest

from app.simulation.server import tables
from app.simulation.server.catalog import SEED_RESOURCES

PODS = next(each for each in SEED_RESOURCES if each.kind == "Pod")
ENDED = "2030-01-01T00:00:00Z"
NOW = 1_893_456_000.0 + 91  # after that


def container(name="main", *, ready=False, restarts=0, last=None, **state):
    ended = {"exitCode": 1, "finishedAt": last}
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": ended} if last else {},
    }


RUNNING = {"running": {"startedAt": ENDED}}
CRASH_LOOP = {"waiting": {"reason": "CrashLoopBackOff"}}
INITIALIZING = {"waiting": {"reason": "PodInitializing"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}


def pod(*containers, phase="Running", inits=(), deleted=False, **status):
    names = [{"name": each["name"]} for each in containers] or [{"name": "main"}]
    status |= {"containerStatuses": list(containers)} if containers else {}
    status |= {"initContainerStatuses": list(inits)} if inits else {}
    return {
        "metadata": {"name": "a", **({"deletionTimestamp": ENDED} if deleted else {})},
        "spec": {"containers": names, "initContainers": [{"name": each["name"]} for each in inits]},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("obj", "cells"),
    [
        (pod(phase="Pending"), ["0/1", "Pending", "0"]),
        (pod(container(ready=True, **RUNNING)), ["1/1", "Running", "0"]),
        (
            pod(container(restarts=5, last=ENDED, **CRASH_LOOP)),
            ["0/1", "CrashLoopBackOff", "5 (91s ago)"],
        ),
        (pod(container(restarts=4, **CRASH_LOOP)), ["0/1", "CrashLoopBackOff", "4"]),
        (pod(container(restarts=1, last=ENDED, **FAILED)), ["0/1", "Error", "1 (91s ago)"]),
        (
            pod(
                container("a", ready=True, restarts=3, last=ENDED, **RUNNING),
                container("b", restarts=4, last=ENDED, **CRASH_LOOP),
            ),
            ["1/2", "CrashLoopBackOff", "7 (91s ago)"],
        ),
        (pod(phase="Failed", reason="Evicted"), ["0/1", "Evicted", "0"]),
        (
            pod(
                container(**INITIALIZING),
                phase="Pending",
                inits=[
                    container("i", restarts=2, last=ENDED, **CRASH_LOOP),
                    container("k", **INITIALIZING),
                ],
            ),
            ["0/1", "Init:CrashLoopBackOff", "2 (91s ago)"],
        ),
        (
            pod(
                container(**INITIALIZING),
                phase="Pending",
                inits=[container("i", **DONE), container("k", **RUNNING)],
            ),
            ["0/1", "Init:1/2", "0"],
        ),
        (
            pod(container(ready=True, **RUNNING), inits=[container("i", restarts=2, **DONE)]),
            ["1/1", "Running", "0"],
        ),
        (pod(container(restarts=4, **CRASH_LOOP), deleted=True), ["0/1", "Terminating", "4"]),
        (pod(phase="Succeeded", deleted=True), ["0/1", "Succeeded", "0"]),
    ],
    ids=[
        *("pending", "running", "crash-loop", "no-exit-time", "error", "two", "evicted"),
        *("init-crash-loop", "init-running", "init-done", "terminating", "done"),
    ],
)
def test_a_pod_is_printed_as_kubectl_users_know_it(obj, cells):
    (row,) = tables.table(PODS, [_whole(obj)], NOW, 1)["rows"]
    assert row["cells"][1:4] == cells


def _whole(obj):
    metadata = {**obj["metadata"], "resourceVersion": "1", "generation": 1}
    return {**obj, "kind": "Pod", "apiVersion": "v1", "metadata": metadata}


@pytest.mark.parametrize(
    ("ready", "ports", "addresses"),
    [
        (0, "<unset>", "<unset>"),
        (1, "1", "10.0.0.1"),
        (3, "1,2,3", "10.0.0.1,10.0.0.2,10.0.0.3"),
        (5, "1,2,3 + 2 more...", "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more..."),
    ],
)
def test_a_slice_shows_its_first_three_ports_and_addresses(ready, ports, addresses):
    numbers = range(1, ready + 1)
    of = {
        "endpoints": [{"addresses": [f"10.0.0.{number}"]} for number in numbers] or None,
        "ports": [{"port": number} for number in numbers] or None,
    }
    assert (tables.ports(of), tables.addresses(of)) == (ports, addresses)
