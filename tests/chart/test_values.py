"""The schema takes every set of values that the chart ships with, and refuses what is wrong with its path."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import meta

from tests.chart import rendering
from tests.chart.rendering import Json
from tests.chart.valuesfiles import (
    at,
    defaults,
    mistakes,
    nested,
    over_defaults,
    parts,
    schema,
)

FREE = {"/global"}
"""Objects that may hold anything: what helm hands to every chart."""
DEPENDENTS = "prober/config/dependentResourceInfos"
PROBES = "prober/config/endpointProbes"
RULES = "alerts/rules"
SELECTORS = "weeder/config/servicesAndDependantSelectors"


SAMPLES: dict[str, Any] = {
    f"{DEPENDENTS}/0": {
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
        "scaleUp": {},
        "scaleDown": {},
    },
    f"{PROBES}/0": {"name": "x", "host": "x.org", "tcpSocket": {"port": 1}},
    f"{PROBES}/0/httpGet": {"port": 1},
    f"{PROBES}/0/httpGet/httpHeaders/0": {"name": "A", "value": "x"},
    f"{PROBES}/0/grpc": {"port": 1},
    f"{SELECTORS}/web/podSelectors/0": {},
    f"{SELECTORS}/web/podSelectors/0/matchExpressions/0": {
        "key": "a",
        "operator": "In",
        "values": ["b"],
    },
}
"""What is right, and stands where a wrong value is put into it."""


def with_wrong(path: str, wrong: Any) -> Json:
    """Values with what is wrong at this path; a map is merged into what is there, and null in it takes a key away."""
    found: Any = {}
    _put(found, path.split("/"), "", wrong)
    return dict(found)


def _put(inside: Any, path: list[str], above: str, wrong: Any) -> None:
    key: Any = int(path[0]) if path[0].isdigit() else path[0]
    here = f"{above}/{path[0]}".removeprefix("/")
    nothing: Any = [] if path[1:] and path[1].isdigit() else {}
    there = inside.get(key, nothing) if isinstance(inside, dict) else nothing
    found = copy.deepcopy(SAMPLES.get(here, there))
    if len(path) > 1:
        _put(found, path[1:], here, wrong)
    elif isinstance(wrong, dict):
        found |= wrong
        if "/0" in here:  # helm takes away what is null, but not within lists
            found = {name: each for name, each in found.items() if each is not None}
    else:
        found = wrong
    if isinstance(inside, list):
        inside.append(found)
    else:
        inside[key] = found


LABELS = f"{SELECTORS}/web/podSelectors/0"
WRONG: dict[str, list[Any]] = {
    "mode": ["both"],
    "image": [{"name": "x"}, {"repository": None}],
    "image/repository": [
        *("", "https://example.org/x", "example.org/x:1.0", "example.org/X"),
    ],
    "image/tag": ["a b", 1.0],
    "image/digest": ["sha256:12"],
    "image/pullPolicy": ["always"],
    "imagePullSecrets/0": ["registry"],
    "fullnameOverride": ["Dwd", "1x", "x" * 40],
    "labels": [{"a/b/c": "x"}],
    "labels/owner": [True],
    "clusterDomain": ["cluster..local"],
    "prober": [{"extra": 1}, {"vpa": None}],
    "prober/enabled": ["yes"],
    "prober/config": [{"probeIntervall": "10s"}],
    "prober/config/internalKubeConfigSecretName": ["A"],
    "prober/config/externalKubeConfigSecretName": [""],
    "prober/config/internalProbeFailureBackoffDuration": ["30"],
    PROBES: [{}],
    f"{PROBES}/0": [{"intervalSeconds": 1}, {"name": None}],
    f"{PROBES}/0/name": ["A", "a" * 64],
    f"{PROBES}/0/type": ["readiness"],
    f"{PROBES}/0/effect": ["Gate"],
    f"{PROBES}/0/host": ["user@x.org", "x.org/healthz", "x.org:443", ""],
    f"{PROBES}/0/container": ["A"],
    f"{PROBES}/0/podSelector": [{"matchLabel": {}}],
    f"{PROBES}/0/initialDelaySeconds": [-1],
    f"{PROBES}/0/periodSeconds": [0, "10s"],
    f"{PROBES}/0/timeoutSeconds": [0],
    f"{PROBES}/0/successThreshold": [0],
    f"{PROBES}/0/failureThreshold": [1.5],
    f"{PROBES}/0/tcpSocket": [{"service": "x"}, {"port": None}],
    f"{PROBES}/0/tcpSocket/port": [0, "443", "name-of-16-chars"],
    f"{PROBES}/0/httpGet/port": [65536],
    f"{PROBES}/0/httpGet/host": ["https://x.org"],
    f"{PROBES}/0/httpGet/scheme": ["https"],
    f"{PROBES}/0/httpGet/path": ["healthz", "/#top"],
    f"{PROBES}/0/httpGet/httpHeaders/0/name": ["A:"],
    f"{PROBES}/0/httpGet/httpHeaders/0/value": ["x\r\ny"],
    f"{PROBES}/0/grpc/port": ["grpc"],
    f"{PROBES}/0/grpc/service": [1],
    f"{PROBES}/0/exec": [{}],
    f"{PROBES}/0/exec/command": [[], "/bin/true"],
    "prober/config/kubeConfigSecretName": ["", "a_b"],
    "prober/config/probeInterval": [10, "10", "0s", "-1s"],
    "prober/config/initialDelay": ["1 m"],
    "prober/config/backoffJitterFactor": [1.5],
    "prober/config/nodeLeaseFailureFraction": [0, "0.6"],
    "prober/config/failureThreshold": [0],
    "prober/config/successThreshold": [1.5],
    "prober/config/onScaleUpFailure": ["stop"],
    DEPENDENTS: [[]],
    f"{DEPENDENTS}/0": [{"required": True}, {"scaleUp": None, "scaleDown": None}],
    f"{DEPENDENTS}/0/optional": ["no"],
    f"{DEPENDENTS}/0/scaleUp": [{"x": 1}],
    f"{DEPENDENTS}/0/scaleUp/level": [-1],
    f"{DEPENDENTS}/0/scaleDown/timeout": ["0s"],
    f"{DEPENDENTS}/0/ref": [{"namespace": "x"}],
    f"{DEPENDENTS}/0/ref/apiVersion": ["apps"],
    f"{DEPENDENTS}/0/ref/kind": ["deployment"],
    f"{DEPENDENTS}/0/ref/name": ["X"],
    f"{DEPENDENTS}/0/ref/resource": ["deployments/scale"],
    "prober/flags": [{"maxDeletionsPerSecond": 1}, {"allowExec": None}],
    "prober/flags/kubeApiQps": [-1],
    "prober/flags/scaleDownQps": [0],
    "prober/flags/concurrentReconciles": [0],
    "prober/flags/allowExec": ["yes"],
    "prober/flags/dryRun": ["true"],
    "serve/flags/externalServerPattern": [1],
    "prober/replicas": ["2"],
    "prober/terminationGracePeriodSeconds": [1],
    "prober/resources": [{"claims": []}],
    "prober/resources/requests/cpu": ["lots"],
    "prober/podAnnotations/a": [1],
    "prober/tolerations/0": [{"keys": "x"}],
    "prober/tolerations/0/effect": ["NoRun"],
    "prober/affinity": [{"podAffinities": {}}],
    "prober/antiAffinity": ["maybe"],
    "prober/topologySpreadConstraints/0": [{}],
    "prober/pdb/maxUnavailable": ["half"],
    "prober/vpa/updateMode": ["On"],
    "weeder/config": [{"minBackoff": "1s"}],
    "weeder/config/watchDuration": ["0"],
    "weeder/config/maxDeletionsPerWorkload": [0],
    "weeder/config/weedBarePods": [1],
    SELECTORS: [{"Web": {"podSelectors": [{}]}}],
    f"{SELECTORS}/web": [{}],
    f"{SELECTORS}/web/podSelectors": [[]],
    LABELS: [{"matchLabel": {}}],
    f"{LABELS}/matchLabels/a": [True],
    f"{LABELS}/matchExpressions/0": [{"values": None}],
    f"{LABELS}/matchExpressions/0/operator": ["in"],
    f"{LABELS}/matchExpressions/0/values": [[]],
    "weeder/flags/maxDeletionsPerSecond": [0],
    "serve": [{"config": {}}],
    "logging/level": ["INFO"],
    "logging/format": ["text"],
    "ports/api": [0],
    "ports/metrics": [65536],
    "ports/health": ["9644"],
    "leaderElection": [{"namespace": "x"}],
    "leaderElection/retryPeriod": ["2"],
    "leaderElection/leaderAddress/addressType": ["FQDN"],
    "api/auth/mode": ["basic"],
    "api/auth/tokenSecret": [{"secretName": "x"}],
    "api/auth/tokenSecret/key": [".."],
    "api/tls/secretName": ["A"],
    "api/urls/prober": ["https://x/api"],
    "api/urls/weeder": ["https://x:70000"],
    "api/cors/allowOrigins/0": ["*", "https://x:65536"],
    "api/trustedProxies/0": [
        *("*", "proxy.garden", "0.0.0.0/0", "::/0", "10.0.0.0/33", "10.0.0.1,10.0.0.2"),
    ],
    "api/ingress/host": ["https://x"],
    "api/httpRoute/parentRefs/0": [{"sectionName": "x"}],
    "metrics/perShoot": ["false"],
    "metrics/serviceMonitor/interval": ["often"],
    "networkPolicy/metrics/from/0": [{}],
    "networkPolicy/api/from/0/podSelector": [{"labels": {}}],
    "networkPolicy/dns/ports": [[]],
    "networkPolicy/apiServer/to/0/ipBlock/cidr": ["10.0.0.1"],
    "networkPolicy/external/ports": [[]],
    "networkPolicy/endpointProbes": [{"namespaces": None}],
    "networkPolicy/endpointProbes/ports/0": [0],
    "crds": [{"keep": False}],
    "crds/install": ["no"],
    "rbac": [{"rules": []}],
    "serviceAccount/names": [{"both": "x"}],
    "alerts": [{"enable": True}],
    "alerts/rules": [{"DWDDone": {}}],
    f"{RULES}/DWDDown": [{"threshold": 1}],
    f"{RULES}/DWDDown/for": ["soon", 5],
    f"{RULES}/DWDDown/enabled": ["yes"],
    f"{RULES}/DWDDown/severity": ["very bad"],
    f"{RULES}/DWDProbeErrorsHigh/fraction": [10],
    f"{RULES}/DWDProbeErrorsHigh/most/fraction": [10],
    f"{RULES}/DWDPermissionsMissing/features": [{"enabled": False}],
    f"{RULES}/DWDPermissionsMissing/exceptResources": ['a"b'],
    f"{RULES}/DWDProbesStalled/seconds": ["120"],
    f"{RULES}/DWDLoopLag/seconds": [0],
    f"{RULES}/DWDFlapping/changes": [2.5],
    f"{RULES}/DWDScaleDownGated": [{"probes": None}],
    f"{RULES}/DWDScaleDownGated/fraction": [2],
    f"{RULES}/DWDEndpointProbeFailing/minutes": [0.5],
    f"{RULES}/DWDStuckScaledDown/failures": [-1],
    "alerts/selector": ["seed=eu-1", '{seed="eu-1"}'],
    "alerts/seedLabels/0": ["the seed"],
    "alerts/alertLabels/severity": ["none"],
    "alerts/runbookUrl": ["a page"],
    "alerts/jobs": [{"operator": "x"}],
    "dashboards": [{"enabeld": True}],
    "dashboards/seedLabel": ["not-a-label"],
    "dashboards/apiUrl": ["ftp://x", "https://x/?token=1"],
    "dashboards/runbookUrl": ["https://x/page#section"],
    "dashboards/labels/grafana_dashboard": [1],
    "dashboards/namespace": ["Garden"],
}


@pytest.mark.parametrize("path", rendering.values_sets(), ids=rendering.name_of)
def test_a_set_that_the_chart_ships_with_is_right(path: Path) -> None:
    assert not mistakes(yaml.safe_load(path.read_text()) or {})


def test_there_are_sets_of_both_kinds() -> None:
    names = {path.parent.name for path in rendering.values_sets()}
    assert names == {"ci", "dependency-watchdog"}


@pytest.mark.parametrize("path", WRONG)
def test_a_wrong_value_is_refused_with_its_path(path: str) -> None:
    for wrong in WRONG[path]:
        assert list(mistakes(with_wrong(path, wrong))) == [path], wrong


def test_a_requirement_has_values_with_some_operators_only() -> None:
    path = f"{LABELS}/matchExpressions/0"
    assert list(mistakes(with_wrong(path, {"operator": "Exists"}))) == [f"{path}/values"]


def test_an_unknown_key_is_named() -> None:
    assert (
        "probeIntervall"
        in mistakes(with_wrong("prober/config/probeIntervall", "10s"))["prober/config"]
    )
    assert "probers" in mistakes({"probers": {}})[""]


def test_an_object_refuses_keys_that_it_does_not_know_or_says_what_they_may_be() -> None:
    for path, found in ((each.path, each.schema) for each in parts()):
        if "properties" in found:
            assert found["additionalProperties"] is False, path
        elif found.get("type") == "object" and path not in FREE:
            assert found["additionalProperties"] is False or found["additionalProperties"], path


def test_every_value_has_a_description() -> None:
    whole = schema()
    for part in parts():
        for name, each in part.schema.get("properties", {}).items():
            if part.path.startswith(("/alerts", "/dashboards")):
                continue
            resolved = (
                whole["definitions"][each["$ref"].rsplit("/", 1)[1]] if "$ref" in each else each
            )
            assert resolved.get("description"), f"{part.path}/{name}"


def test_the_schema_itself_is_one() -> None:
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    meta.validate(schema())


def test_a_section_that_is_taken_away_as_a_whole_is_missed() -> None:
    for name in ("prober", "api", "metrics", "networkPolicy", "crds", "ports"):
        assert list(mistakes({name: None})) == [""]


def test_what_is_optional_in_a_file_may_be_null() -> None:
    names = [name for name, each in at("prober.config")["properties"].items() if _nullable(each)]
    assert not mistakes({"prober": {"config": dict.fromkeys(names)}})
    assert (
        "probeInterval"
        not in over_defaults(nested({"prober.config.probeInterval": None}))["prober"]["config"]
    )


def _nullable(found: dict[str, Any]) -> bool:
    return "null" in found.get("type", ()) or None in found.get("enum", ())


NEEDED = [
    f"{name}.{key}"
    for name, rule in defaults()["alerts"]["rules"].items()
    for section, values in [("", rule), *((k, v) for k, v in rule.items() if isinstance(v, dict))]
    for key in (f"{section}.{each}".strip(".") for each, v in values.items() if v is not None)
]
"""What an alert is written with, and nothing else says: without it there would be one that Prometheus does not take."""


@pytest.mark.parametrize("path", NEEDED)
def test_a_threshold_that_is_taken_away_is_missed(path: str) -> None:
    whole = f"alerts.rules.{path}"
    assert list(mistakes(nested({whole: None}))) == [whole.rpartition(".")[0].replace(".", "/")]


def test_a_port_may_be_any_that_there_is() -> None:
    ports = (1, 80, 8443, 59999, 60000, 64999, 65499, 65529, 65535)
    origins = [f"https://x.org:{port}" for port in ports]
    assert not mistakes(nested({"api.cors.allowOrigins": origins}))


@pytest.mark.parametrize("repository", ["x", "x/y_z", "h:5000/a/b", "H.example.org/a.b/c--d"])
def test_a_repository_is_taken_as_a_registry_has_it(repository: str) -> None:
    assert not mistakes({"image": {"repository": repository}})
