"""Random failures in seeded worlds, and strikes at every boundary of a scaling run's requests; in large: `make
explore`."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.core.clock import Clock
from app.core.kube.decoding import overrides as codec
from app.core.model import overrides
from app.core.model.endpoints import EndpointProbeSpec, ProbeOutcome, TcpSocket
from app.core.model.overrides import Scope
from app.core.model.shoots import Route
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.definitions import Rejected
from app.simulation.server.options import RequestedObject
from app.simulation.store import Store
from app.simulation.traffic import Host, SimulatedRequest
from bench import explore
from bench.exploration import (
    boundaries,
    draws,
    hearing,
    operators,
    path_draws,
    path_invariants,
    path_plants,
    paths,
    plants,
    wishes,
)
from bench.exploration import recipe as recipes
from bench.exploration.line import Boundary
from bench.exploration.strikes import How
from bench.exploration.weeder import draws as weeder_draws

pytestmark = pytest.mark.timeout(900)  # dozens of worlds, and CI leaves them what others do not use

SEED = 1
NOW = 1_800_000_000.0
HOUR = "2027-01-15T08:00:00Z"
SHOOT = "shoot--world--a"
WORLDS = 20
ROOT = Path(__file__).parents[2]
FOUND_IN = {
    "no-confirmation": 0,
    "saved-count-overwritten": 0,
    "leadership-unheeded": 24,
    "no-gap-rule": 85,
    "key-left-behind": 1,
    "hold-taken-for-up": 0,
    "stale-version": 11,
    "count-not-kept": 8,
    "old-consent": 22,
    "pause-unheeded": 0,
    "newer-version-unheeded": 67,
    "acknowledged-pause-forgotten": 0,
    "pause-of-all-unheeded": 0,
    "hold-over-with-its-run": 0,
    "nobody-carries-on": 4,
    "deletion-unheeded": 3,
    "carried-out-twice": 0,
    "begun-by-a-standby": 0,
    "newest-first": 3,
    "status-without-version": 10,
    "first-leader-forgotten": 0,
    "swept-away": 0,
    "unsynced-unheeded": 1,
    "mute-watch-trusted": 6,
    "names-counted": 3,
    "pages-counted": 31,
    "internal-path-taken-for-granted": 3,
    "gate-unheeded": 3,
    "gate-against-everything": 19,
    "relist-forgets-deletions": 14,
    "bookmark-taken-for-event": 2,
    "expired-resumed": 1,
    "lease-without-version": 0,
    "last-count-kept": 0,
    "budget-leaks": 14,
}
"""A world of `SEED` in which each planted defect shows; if the simulation has changed, one that comes after it."""
TRIES = 60


@pytest.mark.parametrize("number", range(WORLDS))
def test_whatever_goes_wrong_nothing_happens_that_must_not(number):
    _, found = explore.explore(SEED, number)
    assert not found.violations, found.replay


@pytest.mark.parametrize("number", boundaries.of_flows(boundaries.cases(), How.KILL)[::5])
def test_a_process_that_is_killed_at_a_boundary_of_a_run_leaves_nothing_lost_or_undone(number):
    _, found = explore.strike(number)
    assert not found.violations, found.replay


@pytest.mark.parametrize("boundary", Boundary)
def test_a_leader_that_is_stopped_for_longer_than_a_term_at_a_boundary_loses_nothing(boundary):
    every = boundaries.cases()
    numbers = [n for n in boundaries.of_flows(every, How.PAUSE) if every[n].boundary is boundary]
    for number in numbers[::10]:
        _, found = explore.strike(number)
        assert not found.violations, found.replay


@pytest.mark.parametrize("world", ["lease mode", "endpoint mode", "by hand"])
def test_every_request_of_both_runs_has_all_its_boundaries(world):
    every = tuple(case for case in boundaries.cases() if case.world == world)
    for how in How:
        mine = [every[n] for n in boundaries.of_flows(every, how)]
        dependents = ("patch deployments", "patch etcds")
        patches = {c.number for c in mine if any(each in c.what for each in dependents)}
        assert len(patches) == 10, "three Deployments and, in two steps, an Etcd: down and up"
        for number in patches:
            assert {case.boundary for case in mine if case.number == number} == set(Boundary)


def test_every_fault_of_the_simulation_is_drawn_or_has_a_reason_why_not():
    drawn = set(draws.FAULTS) | set(path_draws.FAULTS) | set(weeder_draws.FAULTS)
    assert drawn | set(draws.NOT_PLAYED) == draws.known_faults()
    assert not drawn & set(draws.NOT_PLAYED)
    assert all(draws.NOT_PLAYED.values())


def test_one_world_in_four_is_in_endpoint_mode_and_most_of_these_have_a_gate():
    policies = [recipes.draw(SEED, number).policy for number in range(200)]
    paths = [policy for policy in policies if policy.endpoint_mode]
    assert len(paths) == 50
    assert 25 < sum(bool(policy.endpoint_probes) for policy in paths) < 50
    assert {policy.failure_threshold for policy in paths} == {1, 2, 3}


def test_what_can_happen_to_paths_and_gates_comes_about_and_shoots_go_down_and_come_back():
    counts, downs, ups = Counter[str](), 0, 0
    for number in (*range(3, 24, 4), 35):
        story, _ = explore.explore(SEED, number)
        counts.update(story.counts)
        downs, ups = downs + story.downs, ups + story.ups
    missing = set(path_draws.FAULTS) - set(counts)
    assert not missing - set(draws.FAULTS), "what lease mode has too is rare here"
    assert min(downs, ups) > 50


def test_whatever_people_decide_comes_about():
    counts = Counter[str]()
    for number in range(12):
        counts.update(explore.explore(SEED, number)[0].counts)
    assert set(operators.ACTS) <= set(counts)


@pytest.mark.parametrize(("kind", "spec"), operators.MISTAKES)
async def test_what_people_get_wrong_in_the_worlds_is_truly_refused(kind, spec):
    clock = Clock.of_loop()
    world = World(clock, Tasks(clock), seed=1)
    with pytest.raises(Rejected):
        world.people.create(kind, SHOOT, "mistake", **spec)
    assert not world.store.list(kind)


def an_object(kind: str, spec: Any, status: Any = None) -> dict[str, Any]:
    """As the API server gives it."""
    metadata = {
        "name": "mine",
        "namespace": SHOOT,
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2027-01-15T07:00:00Z",
    }
    whole = {"kind": kind, "metadata": metadata, "spec": {"reason": "mine", **spec}}
    return whole if status is None else {**whole, "status": status}


@pytest.mark.parametrize(
    "spec",
    [
        {"scope": "all"},
        {"scope": "scaleDown"},
        {"scope": "all", "until": "2027-01-15T09:00:00Z"},
        {"scope": "scaleDown", "until": "2027-01-15T09:00:00.5Z"},
        {"scope": "all", "until": "2027-01-15T09:00:00+02:00"},
        {"scope": operators.NEWER, "until": "2027-01-15T09:00:00Z"},
    ],
)
def test_a_pause_is_reckoned_apart_from_the_product_and_comes_to_the_same(spec):
    obj = an_object("Pause", spec)
    theirs, mine = codec.pause(json.dumps(obj).encode()), wishes.read(obj, NOW).pausing
    assert mine is not None
    assert (mine.until, mine.everything) == (theirs.until, theirs.scope is Scope.ALL)


@pytest.mark.parametrize("direction", ["Up", "Down"])
@pytest.mark.parametrize("hold", ["0s", "30m", "1h30m", "1.5s", "20ms"])
@pytest.mark.parametrize(
    "status",
    [
        None,
        {"phase": "Running", "startedAt": "2027-01-15T08:00:00Z"},
        {"phase": "Succeeded", "endedAt": "2027-01-15T08:00:00Z"},
        {"phase": "Succeeded", "endedAt": HOUR, "holdUntil": "2027-01-15T08:00:00.250000Z"},
        {"phase": "Failed", "endedAt": "2027-01-15T08:00:00Z"},
        {"phase": "Cancelled", "endedAt": HOUR, "holdUntil": "2027-01-15T09:00:00Z"},
        {"phase": "Refused", "endedAt": HOUR},
    ],
    ids=["new", "running", "succeeded", "told until when", "failed", "cancelled", "refused"],
)
def test_a_hold_is_reckoned_apart_from_the_product_and_comes_to_the_same(direction, hold, status):
    obj = an_object("ScaleRequest", {"direction": direction, "hold": hold, "force": True}, status)
    theirs, mine = codec.scale_request(json.dumps(obj).encode()), wishes.read(obj, NOW).order
    assert mine is not None
    for seconds in (-3_000.0, -1_799.0, 0.1, 1.0, 900.0, 3_599.0, 4_000.0, 100_000.0):
        held = overrides.hold_of(theirs, NOW + seconds) is not None
        assert mine.holds(NOW + seconds, surely=True) <= held
        assert held <= mine.holds(NOW + seconds, surely=False)


def test_what_a_process_is_told_is_heard_however_its_bytes_come():
    store = Store()
    pause = an_object("Pause", {"scope": "all"})
    event = json.dumps({"type": "MODIFIED", "object": an_object("Pause", {"scope": "scaleDown"})})
    page = {"metadata": {"resourceVersion": "9", "continue": ""}, "items": [pause]}
    for size in (1, 7, 10_000):
        told = wishes.Told(lambda: NOW, store, NOW)
        ears = hearing.Hearing(told)
        _hear(ears, "list", whole_answer(page), size)
        assert [each.pausing and each.pausing.everything for each in told.wishes.values()] == [True]
        assert told.known_kinds == {"pauses"}
        ears.told.wishes.clear()
        _hear(ears, "watch", chunked(event.encode() + b"\n"), size)
        assert [each.pausing and each.pausing.everything for each in told.wishes.values()] == [
            False
        ]


def test_a_list_of_several_pages_tells_nothing_before_the_last():
    told = wishes.Told(lambda: NOW, Store(), NOW)
    ears, item = hearing.Hearing(told), an_object("Pause", {"scope": "all"})
    _hear(ears, "list", whole_answer({"metadata": {"continue": "x"}, "items": [item]}))
    assert not told.wishes
    _hear(ears, "list", whole_answer({"metadata": {}, "items": []}), more=True)
    assert set(told.wishes) == {"u"}


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 404 Not Found", b"HTTP/1.1 403 Forbidden"], ids=["unserved", "forbidden"]
)
def test_who_is_refused_three_times_may_take_the_overrides_for_none(head):
    told = wishes.Told(lambda: NOW, Store(), NOW)
    body = b"404 page not found"
    answer = head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for number in (1, 2, 3):
        _hear(hearing.Hearing(told), "list", answer)
        assert told.known_kinds == ({"pauses"} if number == 3 else set())
    assert not told.known(NOW)


def whole_answer(body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text


def chunked(*chunks: bytes) -> bytes:
    sent = b"".join(b"%x\r\n" % len(each) + each + b"\r\n" for each in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent


def _hear(ears, verb: str, data: bytes, size: int = 100, *, more: bool = False) -> None:
    target = RequestedObject("dependency-watchdog.gardener.cloud", "v1alpha1", "pauses")
    answer = ears.answer_to(verb, target, more=more)
    for start in range(0, len(data), size):
        answer.take(data[start : start + size])


@pytest.mark.parametrize("world", ["5", "15"])
def test_a_seed_gives_the_same_log_byte_by_byte_in_every_process(world):
    command = [sys.executable, "-m", "bench.explore", "--seed", "1", "--world", world, "--log"]
    logs = [
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert logs[0].count(b"\n") > 1000
    assert logs[0] == logs[1]


def test_another_seed_gives_another_log():
    assert explore.explore(1, 2)[1].digest != explore.explore(2, 2)[1].digest


@pytest.mark.parametrize(
    ("outcomes", "closed"),
    [
        ("FF", False),
        ("FFF", True),
        ("FFEF", False),
        ("FEFFF", True),
        ("FFSF", False),
        ("FFFS", False),
        ("FFF......", False),
    ],
)
def test_a_gate_is_surely_closed_by_failures_in_a_row_with_none_missing(outcomes, closed):
    kinds = {"F": ProbeOutcome.FAILURE, "S": ProbeOutcome.SUCCESS, "E": ProbeOutcome.ERROR}
    canary, gate = (
        EndpointProbeSpec("canary", tcp_socket=TcpSocket(443), host="a.b", period=2),
        paths.Gate(),
    )
    for number, each in enumerate(outcomes):
        if each in kinds:
            gate.ran(canary, kinds[each], NOW + 2 * number)
    assert gate.closed_at(NOW + 2 * len(outcomes) - 1.9) is closed


@pytest.mark.parametrize(
    ("attempts", "streak"),
    [
        ("iN iN iN", 3),
        ("iN iV iN", 1),
        ("iN iT iN", 2),
        ("iN iB iN", 1),
        ("iN f iN", 1),
        ("iN iL iN", 3),
        ("iN iB", 1),
    ],
)
def test_only_attempts_in_a_row_that_were_refused_cut_or_not_answered_in_time_are_failures(
    attempts, streak
):
    """`i` and `f`: the internal path answers, or does not; then what came by the external one."""
    external = {"N": (0.1, "Unreachable"), "V": (0.1, "ok"), "T": (0.1, "Throttled")}
    external |= {"B": (0.1, "BadAnswer"), "L": (6.0, "ok")}
    made = []
    for number, look in enumerate(attempts.split()):
        at = NOW + 10 * number
        well = "ok" if look[0] == "i" else "Unreachable"
        made.append(paths.Attempt(Route.INTERNAL, at, 4.9, at + 0.1, well))
        for each in look[1:]:
            after, outcome = external[each]
            made.append(paths.Attempt(Route.EXTERNAL, at + 1, 4.9, at + 1 + after, outcome))
    found = [(each.came, count) for each, count in paths.streaks(made)]
    assert found[-1] == (paths.Came.NOTHING, streak)


def test_an_attempt_is_over_when_its_time_is():
    silent = paths.Attempt(Route.EXTERNAL, NOW, 4.9)
    assert silent.ended == NOW + 4.9
    assert silent.came is paths.Came.NOTHING


@pytest.mark.parametrize(
    ("request_", "forbidden"),
    [
        (SimulatedRequest(Host.SHOOT, "list", "leases", "shoot--a"), True),
        (SimulatedRequest(Host.SHOOT, "list", "nodes", "shoot--a"), True),
        (SimulatedRequest(Host.SHOOT, "list", "contact", "shoot--a"), True),
        (SimulatedRequest(Host.SEED, "list", "machines", "shoot--a"), True),
        (SimulatedRequest(Host.SEED, "list", "all machines"), True),
        (SimulatedRequest(Host.SEED, "update", "leases", "garden"), False),
        (SimulatedRequest(Host.SHOOT, "get", "version", "shoot--a", Route.EXTERNAL), False),
    ],
    ids=lambda each: each if isinstance(each, bool) else f"{each.host} {each.what}",
)
def test_what_may_not_be_read_in_endpoint_mode_is_known(request_, forbidden):
    assert (path_invariants.nothing_of_nodes_is_read(request_) is not None) is forbidden


@pytest.mark.parametrize("plant", FOUND_IN)
def test_a_planted_defect_is_found(plant):
    step = 4 if plant in path_plants.PLANTS else 1
    worlds = range(FOUND_IN[plant], FOUND_IN[plant] + TRIES, step)
    assert any(explore.explore(SEED, number, plant)[1].violations for number in worlds)


def test_every_planted_defect_is_looked_for():
    assert set(FOUND_IN) == set(plants.PLANTS)


def test_what_is_found_is_printed_with_the_command_that_replays_it(capsys):
    worlds = ["--seed", "1", "--worlds", "2", "--plant", "key-left-behind"]
    assert explore.main(worlds) == 1
    told = capsys.readouterr().out
    assert "every_shoot_is_as_it_should_be: shoot--world--" in told
    replay = (
        "python -m bench.explore --kind prober --seed 1 --world 1 --log --plant key-left-behind"
    )
    assert f"replay: {replay}" in told
    assert explore.main(replay.split()[3:]) == 1
    assert "VIOLATION" in capsys.readouterr().out


def test_a_run_without_violations_says_what_was_explored_and_ends_well(capsys):
    assert explore.main(["--seed", "1", "--worlds", "1"]) == 0
    told = capsys.readouterr().out
    assert "prober worlds of seed 1: 1 explored, 0 with violations" in told
    assert "weeder worlds of seed 1: 1 explored, 0 with violations" in told
