"""The kubelet's semantics, transition by transition, each with its source.

`doProbe`, `newWorker` and `StopLivenessAndStartup` are the kubelet's, in `pkg/kubelet/prober`; "5" is section 5 of the
specification, which wins where they differ.
"""

from dataclasses import replace

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
SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR
NOW = 1000.0
RUNNING = WorkerInputs(NOW, container="one", started_at=0.0)
RESTARTED = replace(RUNNING, container="two")


def probe(kind=READINESS, **changes):
    return EndpointProbeSpec("etcd", tcp_socket=TcpSocket(2379), type=kind, host="etcd", **changes)


def fresh(kind=READINESS, facts=RUNNING, **changes):
    """The state of a worker that has seen its container, and run nothing yet."""
    return before(probe(kind, **changes), WorkerState(), facts).state


def ran(state, *outcomes, kind=READINESS, **changes):
    """The state after these runs, one a second."""
    for number, outcome in enumerate(outcomes):
        state = after(probe(kind, **changes), state, outcome, NOW + number)
    return state


def said(state):
    return state.result, state.counted


# Before a run: what is there to probe.


def test_without_a_status_of_the_pod_it_waits_for_one():
    # in doProbe, GetPodStatus is not ok
    step = before(probe(), WorkerState(), replace(RUNNING, known=False, finished=True))
    assert step == WorkerStep(WorkerState(), PeriodAction.WAIT, Waiting.NO_POD)


@pytest.mark.parametrize("kind", list(ProbeType))
def test_a_pod_that_has_finished_ends_every_worker(kind):
    # in doProbe, the phase is Failed or Succeeded
    step = before(probe(kind), WorkerState(), replace(RUNNING, finished=True))
    assert (step.action, step.waiting) == (PeriodAction.END, None)


def test_a_pod_that_has_finished_ends_a_worker_on_hold_too():
    # in doProbe, the phase is looked at before anything else
    held = ran(fresh(LIVENESS), *[FAILURE] * 3, kind=LIVENESS)
    step = before(probe(LIVENESS), held, replace(RUNNING, finished=True))
    assert step.action is PeriodAction.END


def test_without_a_container_id_it_waits_and_has_no_result():
    # in doProbe, len(c.ContainerID) == 0
    step = before(probe(), WorkerState(), replace(RUNNING, container="", running=False))
    assert step == WorkerStep(WorkerState(), PeriodAction.WAIT, Waiting.NOT_CREATED)
    assert step.state.result is None


def test_a_container_that_lost_its_id_keeps_what_was_known_of_it():
    # in doProbe, it returns before it compares the ids
    state = ran(fresh(), SUCCESS)
    assert before(probe(), state, replace(RUNNING, container="")).state == state


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (READINESS, CachedResult.FAILURE),
        (LIVENESS, CachedResult.SUCCESS),
        (STARTUP, CachedResult.UNKNOWN),
    ],
)
def test_a_new_container_has_the_initial_value_which_does_not_count(kind, result):
    # newWorker: initialValue; 5: "A new container id resets the worker to its initial value"
    step = before(probe(kind), WorkerState(), RUNNING)
    assert said(step.state) == (result, False)
    assert (step.state.since, step.state.result_at) == (NOW, None)


@pytest.mark.parametrize(
    ("kind", "outcome", "result"),
    [
        (READINESS, SUCCESS, CachedResult.FAILURE),
        (LIVENESS, FAILURE, CachedResult.SUCCESS),
        (STARTUP, SUCCESS, CachedResult.UNKNOWN),
    ],
)
def test_another_container_puts_the_initial_value_in_the_place_of_what_counted(
    kind, outcome, result
):
    # in doProbe, w.containerID != c.ContainerID
    known = ran(fresh(kind), *[outcome] * 3, kind=kind)
    assert known.counted
    state = before(probe(kind), known, replace(RESTARTED, now=NOW + 9)).state
    assert said(state) == (result, False)
    assert (state.container, state.since, state.result_at) == ("two", NOW + 9, None)


def test_what_was_seen_in_a_row_goes_on_with_another_container():
    # in doProbe, lastResult and resultRun stay as they are
    state = ran(fresh(), FAILURE, FAILURE)
    state = before(probe(), state, RESTARTED).state
    assert not state.counted
    assert said(ran(state, FAILURE)) == (CachedResult.FAILURE, True)


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_another_container_takes_the_worker_off_hold(kind):
    # in doProbe, onHold = false; 5: "on hold until the container id changes"
    held = ran(fresh(kind), *[FAILURE] * 3, kind=kind)
    assert before(probe(kind), held, RUNNING).waiting is Waiting.HELD
    assert before(probe(kind), held, RESTARTED).action is PeriodAction.RUN


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_a_hold_comes_before_what_else_it_could_wait_for(kind):
    # in doProbe, onHold is looked at before c.State.Running
    held = ran(fresh(kind), *[FAILURE] * 3, kind=kind)
    step = before(probe(kind), held, replace(RUNNING, running=False))
    assert step == WorkerStep(held, PeriodAction.WAIT, Waiting.HELD)


# A container that is not running.


def test_a_container_that_is_not_running_fails_for_readiness_and_does_not_count():
    # in doProbe, c.State.Running == nil; 5: "is a Failure for Readiness, but no counted one"
    state = ran(fresh(), SUCCESS)
    step = before(probe(), state, replace(RUNNING, running=False, now=NOW + 5))
    assert (step.action, step.waiting) == (PeriodAction.WAIT, Waiting.NOT_RUNNING)
    assert said(step.state) == (CachedResult.FAILURE, False)
    assert step.state.since == NOW + 5


def test_a_counted_failure_no_longer_counts_when_the_container_stops():
    # 5: "but no counted one"
    state = ran(fresh(), *[FAILURE] * 3)
    assert said(state) == (CachedResult.FAILURE, True)
    assert said(before(probe(), state, replace(RUNNING, running=False)).state) == (
        CachedResult.FAILURE,
        False,
    )


def test_a_container_that_goes_on_not_running_is_a_failure_since_it_stopped():
    stopped = replace(RUNNING, running=False)
    first = before(probe(), ran(fresh(), SUCCESS), stopped).state
    assert before(probe(), first, replace(stopped, now=NOW + 60)).state == first


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_a_container_that_is_not_running_says_nothing_new_of_life_and_start(kind):
    # 5 names Readiness only; the kubelet sets a Failure for each type, and acts on none of them
    state = fresh(kind)
    step = before(probe(kind), state, replace(RUNNING, running=False))
    assert step == WorkerStep(state, PeriodAction.WAIT, Waiting.NOT_RUNNING)


def test_what_was_seen_in_a_row_outlasts_a_container_that_is_not_running():
    # in doProbe, it returns before it counts
    state = ran(fresh(), SUCCESS, success_threshold=2)
    state = before(probe(), state, replace(RUNNING, running=False)).state
    assert said(ran(state, SUCCESS, success_threshold=2)) == (CachedResult.SUCCESS, True)


# A pod that is being deleted.


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(RUNNING, id="running"),
        pytest.param(RESTARTED, id="restarted"),
        pytest.param(replace(RUNNING, running=False), id="stopped"),
        pytest.param(replace(RUNNING, container=""), id="not created"),
        pytest.param(replace(RUNNING, started_at=NOW), id="just started"),
    ],
)
def test_a_pod_that_is_being_deleted_ends_liveness_and_startup_with_success(kind, facts):
    # in doProbe, DeletionTimestamp; StopLivenessAndStartup, whatever doProbe waits for
    known = ran(fresh(kind), *[FAILURE] * 3, kind=kind)
    step = before(probe(kind, initial_delay=5), known, replace(facts, deleting=True))
    assert step.action is PeriodAction.END
    assert said(step.state) == (CachedResult.SUCCESS, False)


def test_readiness_goes_on_while_its_pod_is_being_deleted():
    # 5: "Readiness goes on until the pod has finished or is gone"
    step = before(probe(), fresh(), replace(RUNNING, deleting=True))
    assert step.action is PeriodAction.RUN


# The initial delay.


@pytest.mark.parametrize("kind", list(ProbeType))
@pytest.mark.parametrize(("age", "waiting"), [(4.9, Waiting.INITIAL_DELAY), (5.0, None)])
def test_the_initial_delay_counts_from_the_start_of_the_container(kind, age, waiting):
    # in doProbe, time.Since(c.State.Running.StartedAt) < InitialDelaySeconds
    facts = replace(RUNNING, started_at=NOW - age)
    step = before(probe(kind, initial_delay=5), WorkerState(), facts)
    assert step.waiting is waiting


def test_during_the_initial_delay_there_is_the_initial_value():
    # in doProbe, the new container is noted before the delay is looked at
    facts = replace(RUNNING, started_at=NOW)
    state = before(probe(initial_delay=5), WorkerState(), facts).state
    assert said(state) == (CachedResult.FAILURE, False)


def test_without_a_delay_a_node_whose_clock_is_ahead_delays_nothing():
    # doProbe runs on that node; we do not
    facts = replace(RUNNING, started_at=NOW + 30)
    assert before(probe(), WorkerState(), facts).action is PeriodAction.RUN


def test_a_running_container_that_does_not_say_since_when_has_been_running_for_long():
    facts = replace(RUNNING, started_at=None)
    assert before(probe(initial_delay=5), WorkerState(), facts).action is PeriodAction.RUN


# The Startup probe.


@pytest.mark.parametrize("kind", [READINESS, LIVENESS])
def test_until_startup_has_passed_the_other_probes_of_its_target_wait(kind):
    # in doProbe, !c.Started; 5: "until it passes once, the other probes of its target wait"
    step = before(probe(kind), WorkerState(), replace(RUNNING, started=False))
    assert (step.action, step.waiting) == (PeriodAction.WAIT, Waiting.STARTUP)


def test_startup_waits_for_no_other_startup():
    # in doProbe, !c.Started holds up the other types only
    assert (
        before(probe(STARTUP), WorkerState(), replace(RUNNING, started=False)).action
        is PeriodAction.RUN
    )


def test_startup_is_not_run_any_more_once_it_has_passed():
    # in doProbe, c.Started
    state = ran(fresh(STARTUP), SUCCESS, kind=STARTUP)
    assert before(probe(STARTUP), state, RUNNING).waiting is Waiting.STARTED


def test_startup_is_run_again_for_another_container():
    # in doProbe, "we keep it running to make sure it will work for restarted container"
    state = ran(fresh(STARTUP), SUCCESS, kind=STARTUP)
    assert before(probe(STARTUP), state, RESTARTED).action is PeriodAction.RUN


def test_a_startup_has_passed_only_for_the_container_that_it_ran_in():
    # UpdatePodStatus: startupManager.Get asks with the id of the container that there is
    state = ran(fresh(STARTUP), SUCCESS, kind=STARTUP)
    assert state.passed("one")
    assert not state.passed("two")
    assert not fresh(STARTUP).passed("one")
    assert not fresh(LIVENESS).passed("one")  # Success, but only the initial one
    assert not ran(fresh(STARTUP), *[FAILURE] * 3, kind=STARTUP).passed("one")


def test_a_pod_without_an_ip_is_waited_for():
    # ours: the kubelet knows the IP of what it starts
    step = before(probe(), WorkerState(), replace(RUNNING, addressed=False))
    assert (step.action, step.waiting) == (PeriodAction.WAIT, Waiting.NO_ADDRESS)


# A host.


def test_a_host_is_there_from_the_start_and_has_the_initial_value():
    step = before(probe(), WorkerState(), WorkerInputs(NOW, started_at=NOW))
    assert step.action is PeriodAction.RUN
    assert (step.state.container, said(step.state)) == (HOST, (CachedResult.FAILURE, False))


def test_the_initial_delay_of_a_host_counts_from_the_start_of_its_worker():
    # 5: "or of the worker for a host"
    begun = WorkerInputs(NOW, started_at=NOW)
    assert before(probe(initial_delay=5), WorkerState(), begun).waiting is Waiting.INITIAL_DELAY
    later = replace(begun, now=NOW + 5)
    assert before(probe(initial_delay=5), WorkerState(), later).action is PeriodAction.RUN


# After a run: thresholds in a row.


@pytest.mark.parametrize("kind", list(ProbeType))
def test_an_error_leaves_everything_as_it_was(kind):
    # in doProbe, "Prober error, throw away the result."
    state = ran(fresh(kind), FAILURE, kind=kind)
    assert after(probe(kind), state, ERROR, NOW + 50) == state


def test_errors_do_not_break_a_row():
    # in doProbe, it returns before it counts
    assert said(ran(fresh(), FAILURE, ERROR, FAILURE, ERROR, FAILURE)) == (
        CachedResult.FAILURE,
        True,
    )


def test_a_failure_counts_after_its_threshold_in_a_row():
    # in doProbe, resultRun < FailureThreshold
    two = ran(fresh(), SUCCESS, FAILURE, FAILURE)
    assert said(two) == (CachedResult.SUCCESS, True)
    assert said(ran(two, FAILURE)) == (CachedResult.FAILURE, True)


def test_a_success_counts_after_its_threshold_in_a_row():
    # in doProbe, resultRun < SuccessThreshold
    two = ran(fresh(), SUCCESS, SUCCESS, success_threshold=3)
    assert said(two) == (CachedResult.FAILURE, False)
    assert said(ran(two, SUCCESS, success_threshold=3)) == (CachedResult.SUCCESS, True)


def test_another_result_starts_at_one():
    # in doProbe, resultRun = 1
    state = ran(fresh(), SUCCESS, FAILURE, FAILURE, SUCCESS, FAILURE, FAILURE)
    assert said(state) == (CachedResult.SUCCESS, True)
    assert (state.last, state.run) == (CachedResult.FAILURE, 2)


def test_equal_results_add_up_beyond_the_threshold_and_count_once():
    # in doProbe, resultRun++; results.Manager.Set tells of changes only
    state = ran(fresh(), *[FAILURE] * 7)
    assert (said(state), state.run) == ((CachedResult.FAILURE, True), 7)
    assert state.since == NOW + 2  # of the third


def test_a_counted_failure_of_readiness_does_not_hold_the_worker():
    # in doProbe, onHold is for liveness and startup
    state = ran(fresh(), *[FAILURE] * 3)
    assert before(probe(), state, RUNNING).action is PeriodAction.RUN


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_a_counted_failure_of_liveness_or_startup_holds_the_worker(kind):
    # in doProbe, onHold = true, resultRun = 0
    state = ran(fresh(kind), *[FAILURE] * 3, kind=kind)
    assert (said(state), state.held, state.run) == ((CachedResult.FAILURE, True), True, 0)


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_after_a_hold_failures_are_counted_from_the_first_again(kind):
    # in doProbe, resultRun = 0
    held = ran(fresh(kind), *[FAILURE] * 3, kind=kind)
    state = before(probe(kind), held, RESTARTED).state
    assert not ran(state, FAILURE, FAILURE, kind=kind).counted
    assert ran(state, FAILURE, FAILURE, FAILURE, kind=kind).held


@pytest.mark.parametrize("kind", [LIVENESS, STARTUP])
def test_a_success_or_a_failure_below_the_threshold_holds_nobody(kind):
    # in doProbe, it returns before onHold is set
    assert not ran(fresh(kind), SUCCESS, kind=kind).held
    assert not ran(fresh(kind), FAILURE, FAILURE, kind=kind).held


def test_a_result_below_the_threshold_is_one_all_the_same():
    # 5: "no result for three periods" asks for results of runs
    assert ran(fresh(), FAILURE).result_at == NOW
    assert ran(fresh(), FAILURE, ERROR).result_at == NOW


# Gates.

GATE = {"effect": Effect.GATE_SCALE_DOWN}


def test_the_first_failure_of_a_gates_target_counts_at_once():
    # 5: "Until a target has a counted result its first Failure counts at once"
    assert said(ran(fresh(**GATE), FAILURE, **GATE)) == (CachedResult.FAILURE, True)


def test_once_a_gates_target_has_a_counted_result_its_failures_need_their_threshold():
    one = ran(fresh(**GATE), SUCCESS, FAILURE, FAILURE, **GATE)
    assert said(one) == (CachedResult.SUCCESS, True)
    assert said(ran(one, FAILURE, **GATE)) == (CachedResult.FAILURE, True)


def test_successes_of_a_gates_target_need_their_threshold_from_the_start():
    state = ran(fresh(**GATE), SUCCESS, SUCCESS, success_threshold=3, **GATE)
    assert not state.counted
    assert said(ran(state, FAILURE, success_threshold=3, **GATE)) == (CachedResult.FAILURE, True)


def test_another_container_of_a_gate_has_no_counted_result_again():
    state = ran(fresh(**GATE), SUCCESS, **GATE)
    state = before(probe(**GATE), state, RESTARTED).state
    assert said(ran(state, FAILURE, **GATE)) == (CachedResult.FAILURE, True)


def test_the_first_failure_of_what_only_reports_does_not_count():
    assert not ran(fresh(), FAILURE).counted


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
