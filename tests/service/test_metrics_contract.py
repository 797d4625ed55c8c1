"""What a process serves as metrics, held against the contract: names, types, labels, and the words in them.

`CONTRACT` is the contract as data. A row that changes here breaks dashboards and alerts of others.
"""

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as opened
from prometheus_client.parser import text_string_to_metric_families as parsed

from app.core.model.probing import RequestKind, ShootState
from app.core.model.scaling_runs import StepResult
from app.core.model.weeding import DeletionResult
from app.core.model.workloads import Direction
from tests.e2e.processes import eventually
from tests.service.seeded import SHOOTS, seeded

# a process is started and its files are written before anything else runs
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
ANY = None
"""A label whose values are names of things: of resources, of versions, of errors."""
GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
NAMESPACE = {"namespace": ANY}
HOST = {"host": {"seed", "shoot"}}
DIRECTION = {"direction": set(Direction)}
PROBE = {"probe": {"apiserver", "lease", "internal", "external", "endpoint"}}
CONTRACT: dict[str, tuple[str, dict[str, Any]]] = {
    "dwd_build_info": (GAUGE, {"version": ANY, "python": ANY}),
    "dwd_probers_active": (GAUGE, {}),
    "dwd_shoots": (GAUGE, {"state": set(ShootState)}),
    "dwd_probes_total": (COUNTER, PROBE | {"result": {"success", "failure", "error", "throttled"}}),
    "dwd_probe_duration_seconds": (HISTOGRAM, PROBE),
    "dwd_probe_lag_seconds": (HISTOGRAM, {}),
    "dwd_probes_postponed_total": (COUNTER, {}),
    "dwd_detection_seconds": (HISTOGRAM, {}),
    "rest_client_requests_total": (COUNTER, HOST | {"method": ANY, "code": ANY}),
    "rest_client_request_duration_seconds": (HISTOGRAM, HOST | {"verb": ANY}),
    "dwd_throttled_requests_total": (COUNTER, HOST),
    "dwd_scale_operations_total": (
        COUNTER,
        DIRECTION
        | {
            "resource": ANY,
            "result": {"done", "skipped", "failed", "cancelled", "dry-run"},
            "trigger": {"auto", "manual"},
        },
    ),
    "dwd_scale_duration_seconds": (HISTOGRAM, DIRECTION),
    "dwd_dependents_unavailable": (GAUGE, {"resource": ANY}),
    "dwd_meltdowns_total": (COUNTER, {}),
    "dwd_shoot_state": (GAUGE, NAMESPACE | {"state": set(ShootState)}),
    "dwd_shoot_probe_failures_total": (COUNTER, NAMESPACE | PROBE),
    "dwd_shoot_scale_attempts_total": (COUNTER, NAMESPACE | DIRECTION),
    "dwd_shoot_node_leases": (
        GAUGE,
        NAMESPACE | {"state": {"fresh", "expired", "unknown", "excluded"}},
    ),
    "dwd_shoot_dependents_at_zero": (GAUGE, NAMESPACE),
    "dwd_shoot_last_probe_timestamp_seconds": (GAUGE, NAMESPACE),
    "dwd_shoot_protection_start_timestamp_seconds": (GAUGE, NAMESPACE),
    "dwd_endpoint_probe_success": (GAUGE, NAMESPACE | {"name": ANY}),
    "dwd_weeder_recoveries_total": (COUNTER, {"service": ANY}),
    "dwd_weeder_pod_deletions_total": (
        COUNTER,
        {"service": ANY, "result": {"deleted", "gone", "conflict", "capped", "error"}},
    ),
    "dwd_weeder_watches_active": (GAUGE, {}),
    "dwd_overrides_active": (
        GAUGE,
        {"kind": {"pause", "global-pause", "hold", "ignore-scaling", "invalid"}},
    ),
    "dwd_override_expiry_timestamp_seconds": (GAUGE, NAMESPACE | {"kind": ANY}),
    "dwd_credentials_rejected_total": (COUNTER, {"reason": ANY}),
    "dwd_response_limit_hits_total": (
        COUNTER,
        {"limit": {"size", "time", "depth", "count", "crumbs"}},
    ),
    "dwd_watch_restarts_total": (COUNTER, {"kind": ANY, "reason": ANY}),
    "dwd_watch_last_contact_timestamp_seconds": (GAUGE, {"kind": ANY}),
    "leader_election_master_status": (GAUGE, {"name": ANY}),
    "dwd_event_loop_lag_seconds": (HISTOGRAM, {}),
    "dwd_runner_failures_total": (COUNTER, {"loop": ANY}),
    "dwd_missing_permissions": (GAUGE, {"verb": ANY, "resource": ANY}),
    "dwd_feature_off": (
        GAUGE,
        {
            "feature": {
                *("events", "pauses", "scalerequests", "leader-address", "token-review"),
                *("metadata-scan", "api", "endpoint-pods", "endpoint-exec"),
            }
        },
    ),
    "dwd_events_lost_total": (COUNTER, {"cause": {"queue", "seed"}}),
    "dwd_config_warnings": (GAUGE, {}),
    "dwd_clock_skew_seconds": (GAUGE, {}),
    "dwd_weeder_selector_matches": (GAUGE, {"service": ANY, "selector": ANY}),
    "dwd_auth_decisions_total": (COUNTER, {"decision": ANY}),
}
BEYOND = {"dwd_dependents_abandoned_total"}
"""Ours, and in no contract."""
WORDS_BEYOND = {("dwd_weeder_pod_deletions_total", "result"): {"dry-run"}}
OF_THE_API = {
    "http_requests_total": (COUNTER, {"handler", "method", "status"}),
    "http_request_duration_seconds": (HISTOGRAM, {"handler", "method"}),
    "http_request_duration_highr_seconds": (HISTOGRAM, set()),
    "http_request_size_bytes": ("summary", {"handler"}),
    "http_response_size_bytes": ("summary", {"handler"}),
}
"""As prometheus-fastapi-instrumentator names them."""
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|(.*?)\| (.+) \|$")


def rows():
    """The tables of docs/metrics.md."""
    found = (ROW.match(line) for line in DOCS.read_text().splitlines())
    return {
        each[1]: (each[2], set(re.findall(r"`(\w+)`", each[3])), each[4]) for each in found if each
    }


def test_the_documentation_has_each_row_of_the_contract_with_its_type_and_labels():
    wanted = {name: (kind, set(labels)) for name, (kind, labels) in CONTRACT.items()}
    found = {name: row[:2] for name, row in rows().items()}
    assert {name: found.get(name) for name in wanted} == wanted


def test_the_documentation_has_nothing_else_but_what_is_named_here():
    assert set(rows()) - set(CONTRACT) == BEYOND | set(OF_THE_API)
    assert {name: row[:2] for name, row in rows().items() if name in OF_THE_API} == OF_THE_API


@pytest.mark.parametrize(
    ("name", "label", "words"),
    [
        (name, label, words)
        for name, (_, labels) in CONTRACT.items()
        for label, words in labels.items()
        if words is not ANY
    ],
)
def test_the_documentation_names_each_word_of_a_label(name, label, words):
    wanted = words | WORDS_BEYOND.get((name, label), set())
    assert wanted <= set(re.findall(r"`([\w-]+)`", rows()[name][2]))


def test_the_words_of_the_contract_are_those_of_the_program():
    def words(name, label):
        return CONTRACT[name][1][label]

    assert words("dwd_probes_total", "probe") == set(RequestKind)
    assert words("dwd_scale_operations_total", "result") == set(StepResult)
    deletions = ("dwd_weeder_pod_deletions_total", "result")
    assert words(*deletions) | WORDS_BEYOND[deletions] == set(DeletionResult)


# What a process serves.


async def scraped(folder):
    """Both expositions of one process that has looked at its shoots and answered a few calls."""
    async with seeded(folder) as process:
        await eventually(process.probed, "each shoot was looked at", within=10, every=0.25)
        for path in ("/api/v1/shoots", f"/api/v1/shoots/{SHOOTS[0]}", "/nowhere"):
            await process.get("api", path)
        return [
            await process.metrics("text/plain"),
            await process.metrics("application/openmetrics-text; version=1.0.0"),
        ]


def families(answer):
    parse = parsed if answer.headers["Content-Type"].startswith("text/plain") else opened
    return {
        each.name + ("_total" if each.type == "counter" else ""): each
        for each in parse(answer.text)
    }


async def test_a_process_serves_what_is_documented_in_both_formats(tmp_path):
    documented = {name: (kind, labels) for name, (kind, labels, _) in rows().items()}
    answers = await scraped(tmp_path)
    check_series(answers)
    check_beginnings(answers[0])
    for answer in answers:
        assert answer.status == 200
        found = families(answer)
        assert {name: each.type for name, each in found.items()} == {
            name: kind for name, (kind, _) in documented.items()
        }
        for name, family in found.items():
            for sample in family.samples:
                labels = set(sample.labels) - {"le", "quantile"}
                assert labels == documented[name][1], sample
        check_form(answer)


def check_form(answer):
    """What promtool and Prometheus look at beyond the grammar."""
    lines = answer.text.splitlines()
    assert not [line for line in lines if "_created" in line]
    heads = [line for line in lines if line.startswith("# TYPE ")]
    assert len(heads) == len(set(heads))
    names = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    in_a_row = [
        name for name, _ in groupby(names) if not name.endswith(("_bucket", "_sum", "_count"))
    ]
    assert len(in_a_row) == len(set(in_a_row)), "the samples of a family are in one place"
    for line in lines:
        if line.startswith("# HELP "):
            assert len(line.split(" ", 3)) == 4, f"no text: {line}"
    assert (lines[-1] == "# EOF") == ("openmetrics" in answer.headers["Content-Type"])


def check_series(answers):
    """Both formats have the same series, with the words of the contract."""
    text, open_metrics = (
        {
            (sample.name, *sorted(sample.labels.items()))
            for family in families(answer).values()
            for sample in family.samples
        }
        for answer in answers
    )
    assert text ^ open_metrics == set()
    strange = {
        (name, label, value)
        for name, family in families(answers[0]).items()
        for sample in family.samples
        for label, value in sample.labels.items()
        if name in CONTRACT
        and (words := CONTRACT[name][1].get(label)) is not ANY
        and value not in words
    }
    assert strange == set()
    assert sum("namespace" in dict(labels) for _, *labels in text) == 10 * len(SHOOTS)


_SCALED = {"resource": "Deployment/kube-controller-manager", "result": "failed", "trigger": "auto"}
_FIRST = {"namespace": SHOOTS[0]}
FROM_0: list[tuple[str, dict[str, str]]] = [
    ("dwd_scale_operations_total", _SCALED | {"direction": "down"}),
    ("dwd_scale_duration_seconds_count", {"direction": "up"}),
    ("dwd_probes_total", {"probe": "lease", "result": "error"}),
    ("dwd_weeder_recoveries_total", {"service": "kube-apiserver"}),
    ("dwd_weeder_pod_deletions_total", {"service": "kube-apiserver", "result": "deleted"}),
    *(("dwd_runner_failures_total", {"loop": each}) for each in ("prober", "weeder", "events")),
    *(("dwd_throttled_requests_total", {"host": each}) for each in ("seed", "shoot")),
    ("dwd_response_limit_hits_total", {"limit": "size"}),
    ("dwd_credentials_rejected_total", {"reason": "exec"}),
    ("dwd_shoot_scale_attempts_total", _FIRST | {"direction": "down"}),
    ("dwd_shoot_probe_failures_total", _FIRST | {"probe": "lease"}),
    ("dwd_auth_decisions_total", {"decision": "denied"}),
]


def check_beginnings(answer):
    """Counters begin at 0 where their labels are known: one that appears with its first count has not grown."""
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families(answer).values()
        for sample in family.samples
    }
    begun = {(name, *sorted(labels.items())) for name, labels in FROM_0}
    assert {each: found.get(each) for each in begun} == dict.fromkeys(begun, 0.0)
