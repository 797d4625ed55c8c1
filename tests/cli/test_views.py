"""What people see of the API's answers: each view as `views.txt` has it, at an instant that is known."""

from pathlib import Path

import pytest

from app.api import schemas
from app.cli import answers, events, operations, overrides, process, shoots, tables, weeders
from app.core.model.instants import parse_rfc3339
from tests.cli import examples
from tests.cli.examples import CANARY, ETCD, GATE, HEALTHY, PAUSE, RECOVERY, SHOOT, STATUS
from tests.support.shown import sections

NOW = parse_rfc3339(examples.NOW) or 0.0
LATER = NOW + 740
"""When the recoveries of the examples run."""


def of(kind, *found):
    return [answers.of(kind, each) for each in found]


def listed(*found):
    return shoots.listed(of(schemas.Shoot, *found), NOW)


def detailed(shoot=HEALTHY, **more):
    return shoots.detailed(answers.of(schemas.Shoot, shoot | more), NOW)


def told(*found):
    """A line for each event of this name and these data; none for one that people need not see."""
    return [line for name, data in found if (line := events.told(name, data, "14:10:05"))]


def overridden(kind, before, after, author=None, **of):
    change = {"namespace": None, "kind": kind, "resource": None, "author": author, **of}
    return "override", {**change, "before": before, "after": after}


OF_KUBECTL = PAUSE | {"name": "night-shift", "verified": False}
OF_MANY = SHOOT | {"pauses": 3, "pause": SHOOT["pause"] | OF_KUBECTL}
LEFT_ALONE = [schemas.Resource.example(ignoreScaling=True), *SHOOT["resources"][1:]]
OF_NOBODY = SHOOT | {"pause": SHOOT["pause"] | {"author": "unknown", "verified": False}}
NEVER = {"namespace": "a", "service": "etcd", "failing": "it broke"}
FAILED = examples.operation(
    "Failed",
    examples.step(),
    examples.step("Skipped", "Deployment/x", message="ignored", before=1, after=1),
    message="it broke",
    ended="2026-11-20T14:10:30Z",
)
STANDBY = STATUS | {"role": "standby", "dryRun": True, "counts": None, "pause": None}
REFUSED_EARLY = dict.fromkeys(("action", "caller", "claimed", "status")) | {"times": 1}
ATTEMPTS = {
    "items": [examples.ATTEMPT, examples.ATTEMPT | REFUSED_EARLY],
    "metadata": {"since": "2026-11-20T09:12:33Z"},
}
WEEDED = {"deletions": 2, "spared": 1, "trouble": "slow"}
PATHS = [schemas.Condition.example(), schemas.Condition.example(type="ExternalPathReachable")]
BY_PATHS = {"leases": None, "conditions": PATHS, "probe": SHOOT["probe"]}
WELL = CANARY | {"gate": "Open", "result": "Success", "message": "HTTP 200"}
IGNORED = {"namespace": "n", "resource": "Deployment/x"}
VIEWS = {
    "shoots are a table": listed(SHOOT, HEALTHY),
    "a dependent that is left alone is named": listed(
        SHOOT | {"pause": None, "resources": LEFT_ALONE}
    ),
    "of several pauses the one that acts is shown with the number of all": listed(OF_MANY),
    "an unknown author is not called unverified": listed(OF_NOBODY),
    "pauses are a table": overrides.pauses(of(schemas.Pause, SHOOT["pause"], OF_KUBECTL), NOW),
    "leases that the last probe could not read are no numbers of now": listed(examples.UNREACHABLE)
    + shoots.detailed(answers.of(schemas.Shoot, examples.UNREACHABLE), NOW)[3:5],
    "what an older server does not say is shown as nothing": listed({"namespace": "a"}),
    "in endpoint mode the table has no leases": listed(HEALTHY | BY_PATHS),
    "one shoot has all that is known": detailed(SHOOT),
    "a shoot that was never probed": detailed({"namespace": "shoot--a--b"}),
    "endpoint probes are a table, and a closed gate says why": detailed(
        endpointProbes=[CANARY, ETCD], endpointProbesTotal=2, gates=[GATE]
    ),
    "an open gate is a note, and what is not shown of very many is counted": detailed(
        endpointProbes=[WELL], endpointProbesTotal=200
    ),
    "in endpoint mode the paths are judged, and there are no leases": detailed(SHOOT, **BY_PATHS),
    "nodes say whether they count": shoots.nodes(
        of(
            schemas.Node,
            examples.NODE,
            {"name": "node-2", "candidate": None, "reason": "NotRead", "lease": "Missing"},
        )
    ),
    "the history names a dependent once": shoots.history(
        of(
            schemas.HistoryEntry,
            examples.ENTRY,
            examples.ENTRY | {"message": "Deployment/kube-controller-manager was scaled down"},
        )
    ),
    "operations are a table": operations.listed(of(schemas.Operation, FAILED), NOW + 60),
    "one operation is step by step": operations.detailed(
        answers.of(schemas.Operation, FAILED), NOW + 60
    ),
    "a plan is level by level, and says how to do exactly that": operations.planned(
        answers.of(schemas.Plan, examples.PLAN)
    ),
    "services are a table of their newest recoveries": weeders.listed(
        of(schemas.Weeder, examples.WEEDER, NEVER | {"ready": False}), LATER
    ),
    "one service has each pod, and why others were left": weeders.detailed(
        answers.of(schemas.Weeder, examples.WEEDER), LATER
    ),
    "a service that never came back says so": weeders.detailed(
        answers.of(schemas.Weeder, NEVER), NOW
    ),
    "a recovery that was begun says until when": weeders.begun(
        "a/b", answers.of(schemas.Recovery, RECOVERY), LATER
    ),
    "a process says who leads, and what deserves a look": process.told(
        answers.of(schemas.Status, STATUS), NOW
    ),
    "a standby does not know the shoots, and a dry run says what it is": process.told(
        answers.of(schemas.Status, STANDBY), NOW
    )[:4],
    "wide tables say more of each": [
        *shoots.listed(of(schemas.Shoot, SHOOT), NOW, wide=True),
        *operations.listed(of(schemas.Operation, FAILED), NOW + 60, wide=True),
        *weeders.listed(of(schemas.Weeder, examples.WEEDER, NEVER), LATER, wide=True),
    ],
    "attempts are a table, and it is said since when": process.attempts(
        answers.of(schemas.AuditList, ATTEMPTS)
    ),
    "where there is nothing that is said": [
        *listed(),
        *shoots.nodes([]),
        *shoots.history([]),
        *operations.listed([], NOW),
        *operations.planned(answers.of(schemas.Plan, {})),
        *weeders.listed([], NOW),
        *process.told(answers.of(schemas.Status, STANDBY | {"counts": {"Healthy": 0}}), NOW)[3:4],
        *process.attempts(answers.of(schemas.AuditList, {})),
    ],
    "events are a line each": told(
        ("shoot", SHOOT),
        ("shoot", HEALTHY | {"endpointProbes": [CANARY, ETCD], "gates": [GATE]}),
        ("shoot", HEALTHY | {"endpointProbes": [WELL, ETCD], "gates": [GATE | {"state": "Open"}]}),
        ("operation", examples.operation("Running", examples.step())),
        (
            "weeder",
            {"namespace": "n", "service": "s", "ready": True, "recovery": RECOVERY | WEEDED},
        ),
        ("shoot-gone", {"namespace": "n"}),
        ("gap", {"reason": "too old"}),
        ("end", {"reason": "stopped"}),
        ("snapshot-end", {"items": 3}),
        ("comet", {"of a newer server": 1}),
    ),
    "a decision is set or ended": told(
        overridden("pause", None, PAUSE, "jane"),
        overridden("pause", None, OF_KUBECTL, "jane"),
        overridden("pause", PAUSE, None, "jane"),
        overridden("hold", None, examples.HOLD, "joe", namespace="n"),
        overridden("ignore-scaling", False, True, **IGNORED),
        overridden("ignore-scaling", True, False, **IGNORED),
    ),
}
SHOWN = sections(Path(__file__).with_name("views.txt"))


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_as_people_see_it(name):
    assert "".join(f"{line.plain.rstrip()}\n" for line in VIEWS[name]) == SHOWN[name]


def test_a_closed_gate_stands_out():
    line = next(each for each in detailed(gates=[GATE]) if GATE["name"] in each.plain)
    assert "yellow" in str(line.spans), "it holds something back"


def test_control_characters_are_shown_in_no_view():
    nasty = "x\x1b[2J\x9b\u202e\ny"
    target = {"host": nasty, "pod": nasty, "container": nasty}
    probe = dict.fromkeys(("name", "type", "result", "message", "waiting", "lastResult"), nasty)
    shoot = SHOOT | dict.fromkeys(("namespace", "message", "reason", "state"), nasty)
    shoot |= {"pause": PAUSE | {"reason": nasty, "author": nasty}}
    shoot |= {"endpointProbes": [CANARY | probe | {"target": target}]}
    shoot |= {"gates": [GATE | dict.fromkeys(("name", "message", "state"), nasty)]}
    run = answers.of(
        schemas.Operation, examples.operation(reason=nasty, message=nasty, author=nasty)
    )
    lines = [
        *listed(shoot),
        *detailed(shoot),
        *shoots.history(
            of(schemas.HistoryEntry, examples.ENTRY | {"message": nasty, "resource": nasty})
        ),
        *operations.listed([run], NOW),
        *operations.detailed(run, NOW),
        *told((nasty, {}), ("shoot", shoot)),
    ]
    assert [line.plain for line in lines if line and not line.plain.isprintable()] == []


def test_columns_fit_wide_characters():
    rows = tables.table(("A", "B"), [("日本", "x"), ("abc", "y")])
    assert [line.plain for line in rows] == ["A     B", "日本  x", "abc   y"]


def test_spans_are_as_exact_as_people_want_them():
    shown = [tables.span(each) for each in (0, 42.9, 310, 720, 3600, 5400, 30_000, 200_000)]
    assert shown == ["0s", "42s", "5m10s", "12m", "1h0m", "1h30m", "8h", "2d"]


def test_times_that_are_none_are_nothing():
    assert tables.since(None, NOW) == tables.since("soon", NOW) == tables.clock("x") == "-"
    assert tables.since("2026-11-20T15:00:00Z", NOW) == "0s", "our clock is behind"
    assert tables.until("2026-11-20T13:00:00Z", NOW) == "2026-11-20T13:00:00Z"
