"""What the API answers: each shape as `answers.json` has it, so that a change of the contract is seen as one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core import log
from app.core.errors import ConfigWarning
from app.core.model import endpoints
from app.core.model.policy import Loop
from app.core.model.probing import Exclusion, LeaseState, NoticeKind
from app.core.model.scaling_runs import (
    PlannedResource,
    RunStep,
    ScalingPlan,
    ScalingStep,
    StepPhase,
)
from app.core.model.weeding import KeepReason, KeptPod
from app.core.model.workloads import ResourceRef
from app.core.ports import Permission
from tests.api import facts
from tests.api.facts import CA, KCM, MCM, NAMESPACE, NOW, SERVICE, healthy, judgement, workload
from tests.support.endpointprobes import ETCD
from tests.support.notices import OF_KIND

SHOOT = f"/api/v1/shoots/{NAMESPACE}"
WEEDER = f"/api/v1/weeders/{NAMESPACE}/{SERVICE.service}"
NASTY = "two\nlines\x1b[31m\u202e and much more: " + "x" * 5_000
"""What others say is one printable line of limited length in every answer."""
EXCLUSIONS = {each: Exclusion(each) for each in ("NotManaged", "UnhealthyCondition", "NoMachine")}
EXCLUSIONS |= {each: Exclusion(each) for each in ("MachineFailed", "MachineTerminating")}
EXCLUSIONS |= {"InPlaceUpdate": Exclusion("InPlaceUpdate")}


def well(fakes: Any) -> None:
    fakes.shoots.add(healthy())


def protected(fakes: Any) -> None:
    fakes.shoots.add(facts.protected())


def never_probed(fakes: Any) -> None:
    fakes.shoots.add(facts.not_probed())


def probed_endpoints(fakes: Any) -> None:
    fakes.shoots.add(healthy())
    waits = facts.endpoint(
        "etcd",
        facts.container("etcd-main-0"),
        endpoints.CachedResult.UNKNOWN,
        type=endpoints.ProbeType.STARTUP,
        counted=False,
        since=None,
        last_run=None,
        last_outcome=None,
        message="",
        waiting=endpoints.Waiting.INITIAL_DELAY,
    )
    broken = facts.endpoint("lb", last_outcome=endpoints.ProbeOutcome.ERROR, message=NASTY)
    gate = facts.endpoint(
        gate=endpoints.GateReason.PASSING, effect=endpoints.Effect.GATE_SCALE_DOWN
    )
    fakes.endpoints.found[NAMESPACE] = (waits, broken, gate)
    fakes.endpoints.closing[NAMESPACE] = (
        facts.gate("lb", endpoints.GateReason.FAILING, message=NASTY),
        facts.gate("canary", endpoints.GateReason.NO_TARGET),
    )


def judged(fakes: Any) -> None:
    """Nodes of each kind: such as count, such as do not, and such as joined or went since Nodes were read."""
    read = facts.candidacy(good=None, leaseless=None, **EXCLUSIONS)
    leases = (
        judgement("good", LeaseState.EXPIRED),
        *map(judgement, EXCLUSIONS),
        judgement("newer", renewed=NOW - 1),
        judgement("gone", LeaseState.EXPIRED, renewed=NOW - 900),
        judgement("silent", LeaseState.UNKNOWN, renewed=None),
        judgement("behind", renewed=NOW - 301, offset=300.0),
    )
    fakes.shoots.add(replace(healthy(), candidacy=read, judgements=leases))


def past(fakes: Any) -> None:
    def note(kind: NoticeKind, message: str, at: float, resource: Any = None) -> None:
        notice = OF_KIND[kind](NAMESPACE, NOW + at, "Reason", message, resource=resource)
        fakes.shoots.past.note(notice)

    fakes.shoots.add(healthy())
    for second in range(3):
        note(NoticeKind.LOOK, "fine", second)
    note(NoticeKind.SCALE, "scaled", 4, KCM)
    scheduler = ResourceRef("apps/v1", "ReplicaSet", "kube-scheduler-5d")
    note(NoticeKind.WEED, "deleted pod kube-scheduler-5d-x", 5, scheduler)


def run(fakes: Any) -> None:
    steps = (
        RunStep(KCM, 0, StepPhase.DONE, "", NOW - 59, NOW - 58, NOW - 40, before=0, after=2),
        RunStep(MCM, 1, StepPhase.FAILED, NASTY, NOW - 40),
    )
    found = facts.run("op-2", created=NOW - 60, started=NOW - 59, message="1 of 2", steps=steps)
    of_alice = replace(found, author="alice", reason="the load balancer is back")
    fakes.scaling_runs.add(replace(of_alice, hold_until=NOW + 1740.2))  # shown in whole seconds


def plan(fakes: Any) -> None:
    steps = (
        PlannedResource(MCM, 1, ScalingStep.SKIP, "IgnoreScaling", 3, 3, 0.0, '"m"'),
        PlannedResource(KCM, 0, ScalingStep.WRITE, "ScaledUp", 0, 2, 90.0, '"k"'),
        PlannedResource(CA, 1, ScalingStep.SKIP, "Gone", None, None, 0.0, None),
    )

    async def planned(namespace: str, spec: Any, *, if_match: Any = None) -> ScalingPlan:
        return ScalingPlan(namespace, spec.direction, steps, '"all"', replaces="op-7")

    fakes.shoots.add(healthy())
    fakes.scaling_runs.plan = planned


def live(fakes: Any) -> None:
    fakes.shoots.add(healthy())
    views = {KCM: workload(KCM, 2), MCM: facts.protected_workload(MCM, 3), CA: None}
    fakes.resources.known[NAMESPACE] = views


def weeded(fakes: Any) -> None:
    bare = facts.deleted("bare", owner=None, remaining=None)
    spared = KeptPod("etcd-main-0", NOW - 8, KeepReason.NOT_WAITING, NASTY)
    runs = facts.recovery(deletions=(facts.deleted(), bare), spared=(spared,))
    ended = facts.recovery(over=True, trouble=NASTY, queued=3)
    fakes.weeders.add(facts.service(runs, ended, failing=NASTY))


def never_weeded(fakes: Any) -> None:
    fakes.weeders.add(facts.service(ready=False, since=None))


def in_need(fakes: Any) -> None:
    fakes.shoots.add(healthy("a"), healthy("b"), facts.protected("c"))
    process = fakes.process
    process.off = {"events": "forbidden"}
    process.missing = [Permission("patch", "apps", "deployments", "kube-controller-manager")]
    process.warnings = [ConfigWarning("probeIntervall", "unknown", 3)]
    process.unconfigured = ["shoot--a/Deployment/etcd-druid"]
    process.empty_selectors = ["b, selector 0: no pod matches", "a, selector 1: no pod matches"]


def configured(fakes: Any) -> None:
    log.set_level("info")
    probe = endpoints.EndpointProbeSpec("p", tcp_socket=endpoints.TcpSocket(443), pods=ETCD)
    fakes.process.configured.prober = replace(facts.POLICY, endpoint_probes=(probe,))
    fakes.process.warnings = [ConfigWarning("probeIntervall", "unknown", 3)]


def attempted(fakes: Any) -> None:
    paused = {"author": "alice", "scope": "all"}
    said = facts.attempt(namespace=NAMESPACE, claimed="bob", target="Pause/api", before=paused)
    fakes.audit.note(replace(said, reason="it is over"))


UP = {"direction": "up", "reason": "the load balancer is back", "dryRun": True}
WHY = {"reason": "the load balancer is replaced"}
ROWS: dict[str, tuple[Any, str, Any]] = {
    "a protected shoot": (protected, f"GET {SHOOT}", None),
    "a shoot that was never probed has nulls": (never_probed, f"GET {SHOOT}", None),
    "endpoint probes and gates": (probed_endpoints, f"GET {SHOOT}", None),
    "before Nodes were read nobody knows who counts": (well, f"GET {SHOOT}/nodes?limit=1", None),
    "each node says whether it counts, or why not": (judged, f"GET {SHOOT}/nodes", None),
    "probes that say the same are one entry of the history": (past, f"GET {SHOOT}/history", None),
    "dependents as they are now, each with its ETag": (live, f"GET {SHOOT}/resources", None),
    "a pause": (well, f"PUT {SHOOT}/pause", WHY),
    "a scaling run, step by step": (run, "GET /api/v1/operations/op-2", None),
    "a plan, level by level": (plan, f"POST {SHOOT}/scale", UP),
    "a service with its recoveries, pods deleted and spared": (weeded, f"GET {WEEDER}", None),
    "a service that never came back": (never_weeded, f"GET {WEEDER}", None),
    "a process with all that deserves a look": (in_need, "GET /api/v1/status", None),
    "a configuration, defaults and what deserves a look included": (
        configured,
        "GET /api/v1/config",
        None,
    ),
    "an attempt": (attempted, "GET /api/v1/audit", None),
}
"""What there is, what is asked, and with which body."""
SHAPES = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ROWS)
def test_an_answer_has_its_shape(name, fakes, client):
    arrange, line, body = ROWS[name]
    fakes.process.loops = tuple(Loop)
    arrange(fakes)
    answer = client.request(*line.split(), json=body)
    assert answer.status_code == 200
    assert answer.json() == SHAPES[name]
