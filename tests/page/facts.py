"""Hand-made facts for the page: every kind of thing that it shows, with hostile text wherever text can come from."""

from dataclasses import replace
from typing import Any

from app.core.errors import ConfigWarning
from app.core.model.endpoints import GateReason
from app.core.model.policy import Loop
from app.core.model.probing import Exclusion, LeaseState
from app.core.model.scaling_runs import OperationPhase, RunStep, StepPhase
from app.core.model.shoots import NodeView
from app.core.model.weeding import KeepReason, KeptPod, ServiceKey
from app.core.ports import Permission
from app.core.reporting.audit import AuditLog
from app.core.reporting.notices import ScalingNotice
from app.prober.rules.candidates import Candidacy
from tests.api import fakes
from tests.api.facts import (
    KCM,
    NOW,
    OWNER,
    attempt,
    container,
    deleted,
    endpoint,
    gate,
    healthy,
    judgement,
    not_probed,
    pause,
    protected,
    recovery,
    request,
    run,
    service,
)

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202eesrever\u2066 "
LONG = "x" * 10_000
LONG_NAME = "y" * 253
NAMES = ["shoot--a--fine", "shoot--b--cut", "shoot--c--hostile", "shoot--d--off"]


def nodes():
    """A candidacy whose zones and pools are hostile, too."""
    excluded = {"node-0": None, HOSTILE: None, "node-2": Exclusion.NOT_MANAGED, LONG[:253]: None}
    found = tuple(NodeView(name, pool=HOSTILE, zone=HOSTILE + name[:9]) for name in excluded)
    return Candidacy(NOW - 60, excluded, frozenset(excluded), found)


def facts(**more):
    shoots, audit = fakes.FakeShoots(), AuditLog(lambda: NOW)
    leases = (
        judgement("node-0"),
        judgement(HOSTILE, LeaseState.EXPIRED, NOW - 60, offset=3600.0),
        judgement("node-2", LeaseState.UNKNOWN, None),
    )
    hostile = replace(
        protected(NAMES[2]),
        message=HOSTILE + LONG,
        reason=HOSTILE,
        candidacy=nodes(),
        judgements=leases,
    )
    shoots.add(healthy(NAMES[0]), protected(NAMES[1]), hostile, not_probed(NAMES[3]))
    for name in NAMES:
        shoots.past.note(ScalingNotice(name, NOW - 5, HOSTILE, HOSTILE + LONG))
    overrides = fakes.FakeOverrides()
    overrides.add(
        pause(of=NAMES[2], reason=HOSTILE + LONG, author=HOSTILE, seconds=900),
        pause(of=NAMES[2], name=LONG_NAME, reason=LONG, author=HOSTILE, seconds=600),
        request(of=NAMES[2], operation=HOSTILE, reason=HOSTILE, author=LONG),
    )
    runs = fakes.FakeFlows()
    step = RunStep(KCM, 0, StepPhase.FAILED, HOSTILE + LONG, NOW, NOW, NOW, 1, 0)
    for number, name in enumerate(NAMES[1:3]):
        said = {"reason": HOSTILE + LONG, "author": HOSTILE, "message": HOSTILE, "steps": (step,)}
        over = {} if number else {"phase": OperationPhase.FAILED, "ended": NOW}
        runs.add(run(f"op-{number}", namespace=name, created=NOW - 60, **said | over))
    weeders = fakes.FakeWeeders()
    gone = deleted(HOSTILE, owner=OWNER._replace(name=HOSTILE), container=HOSTILE)
    spared = KeptPod(LONG[:253], NOW, KeepReason.NOT_WAITING, HOSTILE + LONG)
    for name in NAMES[1:3]:
        key = ServiceKey(name, "kube-apiserver")
        found = recovery(key, deletions=(gone,), spared=(spared,), trouble=HOSTILE + LONG)
        weeders.add(service(found, key=key))
    what: dict[str, Any] = {
        "target": HOSTILE,
        "reason": HOSTILE + LONG,
        "before": {"reason": HOSTILE},
    }
    who: dict[str, Any] = {"caller": HOSTILE, "claimed": HOSTILE, "namespace": NAMES[2]}
    denied = attempt(status=409, problem="urn:x:conflict", after={"reason": LONG}, **what, **who)
    audit.note(replace(denied, path=f"/api/v1/shoots/{HOSTILE}/pause"))
    endpoints = fakes.FakeEndpoints()
    for name in NAMES[1:3]:
        endpoints.found[name] = (
            endpoint(HOSTILE[:60], container(HOSTILE), message=HOSTILE + LONG),
        )
        endpoints.closing[name] = (gate(HOSTILE[:60], GateReason.FAILING, message=HOSTILE),)
    process = fakes.FakeProcess(
        loops=(Loop.PROBER, Loop.WEEDER),
        missing=[Permission("list", "", HOSTILE, "")],
        warnings=[ConfigWarning(HOSTILE, HOSTILE, 3)],
        unconfigured=[HOSTILE],
        off={"events": HOSTILE},
    )
    return fakes.context(
        shoots,
        process,
        weeders,
        overrides=overrides,
        scaling_runs=runs,
        endpoints=endpoints,
        audit=audit,
        **more,
    )
