"""The kubelet's semantics, transition by transition, each with its source.

`doProbe`, `newWorker` and `StopLivenessAndStartup` are the kubelet's, in `pkg/kubelet/prober`; "5" is section 5 of the
specification, which wins where they differ. Any life of a pod is compared with the kubelet's own code in
`tests/prober/endpoints/test_against_the_kubelet.py`.
"""

from dataclasses import replace
from typing import Any

import pytest

from app.core.model.endpoints import (
    CachedResult,
    Effect,
    EndpointProbeSpec,
    ProbeOutcome,
    ProbeType,
    TcpSocket,
    Waiting,
)
from app.prober.rules.probe_worker import (
    HOST,
    PeriodAction,
    WorkerInputs,
    WorkerState,
    WorkerStep,
    after,
    before,
    first_tick,
    next_tick,
)

READINESS, LIVENESS, STARTUP = ProbeType.READINESS, ProbeType.LIVENESS, ProbeType.STARTUP
WELL, ILL, UNKNOWN = CachedResult.SUCCESS, CachedResult.FAILURE, CachedResult.UNKNOWN
RUN, WAIT, END = PeriodAction.RUN, PeriodAction.WAIT, PeriodAction.END
NOW = 1000.0
RUNNING = WorkerInputs(NOW, container="one", started_at=0.0)
RESTARTED = replace(RUNNING, container="two")
STOPPED = replace(RUNNING, running=False)
RUNS = {"S": ProbeOutcome.SUCCESS, "F": ProbeOutcome.FAILURE, "E": ProbeOutcome.ERROR}
GATE = {"effect": Effect.GATE_SCALE_DOWN}
THREE, DELAY = {"success_threshold": 3}, {"initial_delay": 5}


def probe(kind=READINESS, **changes):
    return EndpointProbeSpec("etcd", tcp_socket=TcpSocket(2379), type=kind, host="etcd", **changes)


def lived(life="", kind=READINESS, **changes):
    """What a worker knows after so many seconds: S, F, E are runs, x is a container that does not run, 2 a new one."""
    facts, state = RUNNING, before(probe(kind, **changes), WorkerState(), RUNNING).state
    for second, each in enumerate(life):
        if each in RUNS:
            state = after(probe(kind, **changes), state, RUNS[each], NOW + second)
            continue
        facts = RESTARTED if each == "2" else facts
        seen = replace(facts, now=NOW + second, running=each != "x")
        state = before(probe(kind, **changes), state, seen).state
    return state


def said(state):
    return state.result, state.counted


# What a result is, and whether it counts.

RESULTS: dict[str, Any] = {
    # newWorker: initialValue; 5: "A new container id resets the worker to its initial value"
    "a new container is not ready": (READINESS, "", {}, ILL, False),
    "a new container is alive": (LIVENESS, "", {}, WELL, False),
    "a new container may have started": (STARTUP, "", {}, UNKNOWN, False),
    # in doProbe, w.containerID != c.ContainerID
    "another container is not ready": (READINESS, "SSS2", {}, ILL, False),
    "another container is alive": (LIVENESS, "FFF2", {}, WELL, False),
    "another container may have started": (STARTUP, "SSS2", {}, UNKNOWN, False),
    # in doProbe, lastResult and resultRun stay as they are
    "a row does not count for another container": (READINESS, "FF2", {}, ILL, False),
    "but it goes on with another container": (READINESS, "FF2F", {}, ILL, True),
    "also where it has counted": (READINESS, "FFF2F", {}, ILL, True),
    # in doProbe, c.State.Running == nil; 5: "is a Failure for Readiness, but no counted one"
    "a container that does not run fails for readiness": (READINESS, "Sx", {}, ILL, False),
    "a counted failure counts no longer then": (READINESS, "FFFx", {}, ILL, False),
    # 5 names Readiness only; the kubelet sets a Failure for each type, and acts on none of them
    "one that does not run says nothing of life": (LIVENESS, "Sx", {}, WELL, True),
    "one that does not run says nothing of its start": (STARTUP, "x", {}, UNKNOWN, False),
    # in doProbe, it returns before it counts
    "what was seen in a row outlasts a stop": (READINESS, "SSxS", THREE, WELL, True),
    "errors do not break a row": (READINESS, "FEFEF", {}, ILL, True),
    # in doProbe, resultRun < FailureThreshold
    "two failures in a row do not count": (READINESS, "SFF", {}, WELL, True),
    "the third failure in a row counts": (READINESS, "SFFF", {}, ILL, True),
    # in doProbe, resultRun < SuccessThreshold
    "two successes of three do not count": (READINESS, "SS", THREE, ILL, False),
    "the third success in a row counts": (READINESS, "SSS", THREE, WELL, True),
    # in doProbe, resultRun = 1
    "another result starts at one": (READINESS, "SFFSFF", {}, WELL, True),
    # in doProbe, resultRun = 0 with onHold
    "after a hold two failures do not count": (LIVENESS, "FFF2FF", {}, WELL, False),
    "after a hold failures are counted from the first again": (LIVENESS, "FFF2FFF", {}, ILL, True),
    "so are those of a start": (STARTUP, "FFF2FF", {}, UNKNOWN, False),
    # 5: "Until a target has a counted result its first Failure counts at once"
    "the first failure of a gate's target counts at once": (READINESS, "F", GATE, ILL, True),
    "of what only reports it does not": (READINESS, "F", {}, ILL, False),
    "once it has a result, a gate's target may fail twice": (READINESS, "SFF", GATE, WELL, True),
    "and not three times": (READINESS, "SFFF", GATE, ILL, True),
    "its successes need their threshold": (READINESS, "SS", GATE | THREE, ILL, False),
    "a success that does not count is no result": (READINESS, "SSF", GATE | THREE, ILL, True),
    "another container of a gate has no result again": (READINESS, "S2F", GATE, ILL, True),
}


@pytest.mark.parametrize("life", RESULTS)
def test_what_comes_of_the_life_of_a_container(life):
    kind, seconds, changes, result, counted = RESULTS[life]
    assert said(lived(seconds, kind, **changes)) == (result, counted)


@pytest.mark.parametrize(
    ("life", "since", "result_at"),
    [
        pytest.param("", NOW, None, id="of a new container"),
        pytest.param("FFFFFFF", NOW + 2, NOW + 6, id="results.Manager.Set tells of changes only"),
        pytest.param("FFF2", NOW + 3, None, id="of another container"),
        pytest.param("Sxxx", NOW + 1, NOW, id="of one that goes on not running"),
        pytest.param("FE", NOW, NOW, id="a result below the threshold is one all the same"),
    ],
)
def test_a_result_says_since_when_it_is_so_and_when_it_was_seen_last(life, since, result_at):
    state = lived(life)
    assert (state.since, state.result_at) == (since, result_at)


@pytest.mark.parametrize("kind", list(ProbeType))
def test_an_error_leaves_everything_as_it_was(kind):
    # in doProbe, "Prober error, throw away the result."
    state = lived("F", kind)
    assert after(probe(kind), state, ProbeOutcome.ERROR, NOW + 50) == state


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_a_counted_failure_of_liveness_or_startup_and_nothing_less_holds_the_worker(kind):
    # in doProbe, onHold = true, resultRun = 0
    assert (lived("FFF", kind).held, lived("FFF", kind).run) == (True, 0)
    assert not lived("S", kind).held
    assert not lived("FF", kind).held


def test_a_startup_has_passed_only_for_the_container_that_it_ran_in():
    # UpdatePodStatus: startupManager.Get asks with the id of the container that there is
    state = lived("S", STARTUP)
    assert state.passed("one")
    assert not state.passed("two")
    assert not lived("", STARTUP).passed("one")
    assert not lived("", LIVENESS).passed("one")  # Success, but only the initial one
    assert not lived("FFF", STARTUP).passed("one")


# Before a run: whether there is something to probe.

STEPS: dict[str, Any] = {
    # in doProbe, the phase is Failed or Succeeded
    "a pod that has finished ends a worker": (READINESS, "", {"finished": True}, {}, END, None),
    "one on hold, too": (LIVENESS, "FFF", {"finished": True}, {}, END, None),
    # in doProbe, onHold is for liveness and startup; 5: "on hold until the container id changes"
    "a failure of readiness holds nobody": (READINESS, "FFF", {}, {}, RUN, None),
    "one of liveness does": (LIVENESS, "FFF", {}, {}, WAIT, Waiting.HELD),
    "and one of startup": (STARTUP, "FFF", {}, {}, WAIT, Waiting.HELD),
    "another container takes it off hold": (LIVENESS, "FFF", {"container": "two"}, {}, RUN, None),
    "also off that of a startup": (STARTUP, "FFF", {"container": "two"}, {}, RUN, None),
    # in doProbe, onHold is looked at before c.State.Running
    "a hold comes first": (LIVENESS, "FFF", {"running": False}, {}, WAIT, Waiting.HELD),
    "what does not run": (READINESS, "S", {"running": False}, {}, WAIT, Waiting.NOT_RUNNING),
    # 5: "Readiness goes on until the pod has finished or is gone"
    "readiness goes on during a deletion": (READINESS, "", {"deleting": True}, {}, RUN, None),
    # doProbe runs on that node; we do not
    "a node's clock that is ahead": (READINESS, "", {"started_at": NOW + 30}, {}, RUN, None),
    "one that does not say since when": (READINESS, "", {"started_at": None}, DELAY, RUN, None),
    # in doProbe, !c.Started; 5: "until it passes once, the other probes of its target wait"
    "readiness waits for a start": (READINESS, "", {"started": False}, {}, WAIT, Waiting.STARTUP),
    "liveness waits for it": (LIVENESS, "", {"started": False}, {}, WAIT, Waiting.STARTUP),
    "a startup waits for no other": (STARTUP, "", {"started": False}, {}, RUN, None),
    # in doProbe, c.Started
    "a startup that has passed": (STARTUP, "S", {}, {}, WAIT, Waiting.STARTED),
    # in doProbe, "we keep it running to make sure it will work for restarted container"
    "is run again for another container": (STARTUP, "S", {"container": "two"}, {}, RUN, None),
    # ours: the kubelet knows the IP of what it starts
    "a pod without an IP": (READINESS, "", {"addressed": False}, {}, WAIT, Waiting.NO_ADDRESS),
}


@pytest.mark.parametrize("what", STEPS)
def test_what_a_worker_does_in_a_period(what):
    kind, life, facts, changes, action, waiting = STEPS[what]
    step = before(probe(kind, **changes), lived(life, kind, **changes), replace(RUNNING, **facts))
    assert (step.action, step.waiting) == (action, waiting)


@pytest.mark.parametrize(
    ("facts", "waiting"),
    [
        # in doProbe, GetPodStatus is not ok
        (replace(RUNNING, known=False, finished=True), Waiting.NO_POD),
        # in doProbe, len(c.ContainerID) == 0
        (replace(RUNNING, container="", running=False), Waiting.NOT_CREATED),
    ],
)
def test_without_a_pod_or_a_container_it_waits_and_what_was_known_stays(facts, waiting):
    for state in (WorkerState(), lived("S")):
        assert before(probe(), state, facts) == WorkerStep(state, WAIT, waiting)


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(RUNNING, id="running"),
        pytest.param(RESTARTED, id="restarted"),
        pytest.param(STOPPED, id="stopped"),
        pytest.param(replace(RUNNING, container=""), id="not created"),
        pytest.param(replace(RUNNING, started_at=NOW), id="just started"),
    ],
)
def test_a_pod_that_is_being_deleted_ends_liveness_and_startup_with_success(kind, facts):
    # in doProbe, DeletionTimestamp; StopLivenessAndStartup, whatever doProbe waits for
    step = before(probe(kind, initial_delay=5), lived("FFF", kind), replace(facts, deleting=True))
    assert (step.action, said(step.state), step.state.since) == (END, (WELL, False), NOW)


@pytest.mark.parametrize("kind", list(ProbeType))
@pytest.mark.parametrize(("age", "waiting"), [(4.9, Waiting.INITIAL_DELAY), (5.0, None)])
def test_the_initial_delay_counts_from_the_start_of_the_container(kind, age, waiting):
    # in doProbe, time.Since(c.State.Running.StartedAt) < InitialDelaySeconds
    step = before(
        probe(kind, initial_delay=5), WorkerState(), replace(RUNNING, started_at=NOW - age)
    )
    # in doProbe, the new container is noted before the delay is looked at
    assert (step.waiting, step.state) == (waiting, lived("", kind))


def test_a_host_is_there_from_the_start_and_its_delay_counts_from_that_of_its_worker():
    # 5: "or of the worker for a host"
    begun = WorkerInputs(NOW, started_at=NOW)
    step = before(probe(), WorkerState(), begun)
    assert (step.action, step.state.container, said(step.state)) == (RUN, HOST, (ILL, False))
    delayed = probe(initial_delay=5)
    assert before(delayed, WorkerState(), begun).waiting is Waiting.INITIAL_DELAY
    assert before(delayed, WorkerState(), replace(begun, now=NOW + 5)).action is RUN


# Ticks.


@pytest.mark.parametrize(
    ("now", "due"),
    [
        pytest.param(99.9995, 110.0, id="a timer that was a little early"),
        pytest.param(100.0, 110.0, id="in time"),
        pytest.param(103.0, 110.0, id="late, and the distance to the others stays"),
        pytest.param(110.0, 120.0, id="a period late: that tick is used up"),
        pytest.param(456.0, 460.0, id="frozen for long: one run for all that passed"),
    ],
)
def test_ticks_keep_their_distance_and_do_not_pile_up(now, due):
    # of time.NewTicker, "The ticker will adjust the time interval or drop ticks to make up for slow receivers"
    assert next_tick(100.0, 10.0, now) == due


# 5: "a restart of DWD does not probe everything at once".


@pytest.mark.parametrize(
    ("now", "randomness", "together", "due"),
    [
        pytest.param(100.1, 0.5, 0.0, 105.1, id="alone"),
        pytest.param(100.1, 0.5, 0.25, 105.0, id="with the begin of a stretch"),
        pytest.param(100.0, 0.999, 0.25, 109.75, id="with the last of its period"),
        pytest.param(100.0, 0.0, 0.25, 100.0, id="at the begin itself"),
        pytest.param(100.1, 0.01, 0.25, 100.1, id="in the stretch that has begun"),
    ],
)
def test_a_worker_that_may_wait_begins_with_others_but_not_before_it_is_there(
    now, randomness, together, due
):
    assert first_tick(now, 10.0, together, randomness) == pytest.approx(due, abs=1e-9)
