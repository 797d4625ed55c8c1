"""What people see of endpoint probes, gates and endpoint mode."""

from app.api.schemas import Shoot
from app.cli import answers, events, shoots
from app.core.model.instants import parse_rfc3339
from tests.cli import examples

NOW = parse_rfc3339("2027-01-15T08:00:00Z") or 0.0
CANARY = {
    "name": "canary",
    "type": "Readiness",
    "effect": "GateScaleDown",
    "target": {"host": "canary.example.org", "pod": None, "container": None},
    "result": "Failure",
    "counted": True,
    "since": "2027-01-15T07:59:18Z",
    "lastTime": "2027-01-15T07:59:58Z",
    "lastResult": "Failure",
    "message": "no connection",
    "waiting": None,
    "gate": "Closed",
}
ETCD = CANARY | {
    "name": "etcd",
    "type": "Startup",
    "effect": "Observe",
    "target": {"host": None, "pod": "etcd-main-0", "container": "etcd"},
    "result": "Unknown",
    "counted": False,
    "since": None,
    "lastTime": None,
    "lastResult": None,
    "message": "",
    "waiting": "InitialDelay",
    "gate": None,
}
GATE = {
    "name": "canary",
    "state": "Closed",
    "reason": "Failing",
    "message": "the gate canary is closed, its target fails: no connection",
    "since": "2027-01-15T07:59:18Z",
}
PATHS = [
    {"type": "APIServerReachable", "status": "True", "reason": "Answered", "message": "it answers"},
    {"type": "ExternalPathReachable", "status": "False", "reason": "Unreachable", "message": "-"},
]


def detailed(**more):
    found = answers.of(Shoot, {**examples.HEALTHY, "hold": None, **more})
    return "\n".join(line.plain.rstrip() for line in shoots.detailed(found, NOW))


def test_probes_are_a_table_with_their_targets_and_what_they_wait_for():
    found = detailed(endpointProbes=[CANARY, ETCD], endpointProbesTotal=2, gates=[GATE])
    assert (
        "\n\nPROBE   TARGET              TYPE       RESULT   FOR  LAST RUN         NOTES\n"
        "canary  canary.example.org  Readiness  Failure  42s  2s ago: Failure  gate closed, no connection\n"
        "etcd    etcd-main-0/etcd    Startup    Unknown  -    not yet          not counted, waits: InitialDelay\n"
        "\nCONDITION"
    ) in found


def test_a_gate_says_why_it_is_closed_and_for_how_long():
    found = detailed(endpointProbes=[CANARY], endpointProbesTotal=1, gates=[GATE])
    assert (
        "  gate        the gate canary is closed, its target fails: no connection (Closed for 42s)\n"
    ) in found
    line = shoots.detailed(answers.of(Shoot, {**examples.HEALTHY, "gates": [GATE]}), NOW)[5]
    assert "yellow" in str(line.spans), "it holds something back"


def test_an_open_gate_is_a_note():
    probe = CANARY | {"gate": "Open", "result": "Success", "message": "HTTP 200"}
    assert "  gate, HTTP 200\n" in detailed(endpointProbes=[probe], endpointProbesTotal=1)


def test_without_endpoint_probes_there_is_no_table_of_them():
    found = detailed()
    assert "PROBE" not in found
    assert "gate" not in found
    assert "\n  leases " in found


def test_what_is_not_shown_of_very_many_is_counted():
    found = detailed(endpointProbes=[CANARY], endpointProbesTotal=200)
    assert "\nand 199 more, which are no worse\n" in found


def test_in_endpoint_mode_there_is_no_line_about_leases_and_the_paths_are_judged():
    look = {**examples.SHOOT["probe"], "verdict": "Hold", "wouldBe": "ScaleDown"}
    found = detailed(leases=None, conditions=PATHS, probe=look)
    assert "\n  leases " not in found
    assert "Hold (the paths alone say ScaleDown)" in found
    assert "ExternalPathReachable" in found


def test_in_endpoint_mode_the_table_of_shoots_has_no_leases():
    found = answers.of(Shoot, {**examples.HEALTHY, "leases": None, "conditions": PATHS})
    [_, row] = shoots.listed([found], NOW)
    assert row.plain.split()[4] == "-"


def test_an_event_of_a_shoot_says_which_gate_is_closed_and_how_many_probes_fail():
    shoot = {**examples.HEALTHY, "endpointProbes": [CANARY, ETCD], "gates": [GATE]}
    line = events.told("shoot", shoot, "08:00:00")
    assert line is not None
    assert line.plain.endswith("; endpoint probes: 1 failing; gate closed: canary")


def test_an_event_of_a_shoot_whose_probes_are_well_says_nothing_of_them():
    well = {"result": "Success", "gate": "Open"}
    probes = [CANARY | well, ETCD | {"result": "Failure"}]
    shoot = {
        **examples.HEALTHY,
        "endpointProbes": probes,
        "gates": [GATE | {"state": "Open"}],
    }
    line = events.told("shoot", shoot, "08:00:00")
    assert line is not None
    assert "probe" not in line.plain
    assert "gate" not in line.plain


def test_control_characters_of_targets_are_shown_in_no_view():
    nasty = "x\x1b[2J\x9b\u202e\ny"
    target = {"host": nasty, "pod": nasty, "container": nasty}
    probe = dict.fromkeys(("name", "type", "result", "message", "waiting", "lastResult"), nasty)
    gate = GATE | dict.fromkeys(("name", "message", "state"), nasty)
    found = detailed(endpointProbes=[CANARY | probe | {"target": target}], gates=[gate])
    assert all(line.isprintable() for line in found.split("\n"))
