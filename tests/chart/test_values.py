"""The schema takes every set of values that the chart ships with, and refuses what is wrong with its path."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import meta

from tests.chart import rendering
from tests.chart.valuesfiles import at, defaults, mistakes, over_defaults, parts, schema

FREE = {"/global"}
"""Objects that may hold anything: what helm hands to every chart."""
DEPENDENTS = "prober/config/dependentResourceInfos"
PROBES = "prober/config/endpointProbes"
SELECTORS = "weeder/config/servicesAndDependantSelectors"


def dependent(**over: Any) -> dict[str, Any]:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    return {"ref": ref, "scaleUp": {}, "scaleDown": {}, **over}


def refs(**over: Any) -> dict[str, Any]:
    """Values with one dependent whose ref is that of a Deployment but for `over`."""
    given = dependent()["ref"] | over
    return prober(dependentResourceInfos=[dependent(ref=given)])


def prober(**config: Any) -> dict[str, Any]:
    return {"prober": {"config": config}}


def probe(**over: Any) -> dict[str, Any]:
    """Values with one endpoint probe, which is right but for `over`."""
    given = {"name": "x", "host": "x.org", "tcpSocket": {"port": 1}, **over}
    return prober(endpointProbes=[{k: v for k, v in given.items() if v is not None}])


def weeder(**config: Any) -> dict[str, Any]:
    return {"weeder": {"config": config}}


def selector(**requirement: Any) -> dict[str, Any]:
    """Values with one service whose selector has one requirement."""
    dependants = {"podSelectors": [{"matchExpressions": [requirement]}]}
    return weeder(servicesAndDependantSelectors={"web": dependants})


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("", {"probers": {}}),
    ("mode", {"mode": "both"}),
    ("image", {"image": {"name": "x"}}),
    ("image", {"image": {"repository": None}}),
    ("image/repository", {"image": {"repository": ""}}),
    ("image/tag", {"image": {"tag": "a b"}}),
    ("image/tag", {"image": {"tag": 1.0}}),
    ("image/digest", {"image": {"digest": "sha256:12"}}),
    ("image/pullPolicy", {"image": {"pullPolicy": "always"}}),
    ("imagePullSecrets/0", {"imagePullSecrets": ["registry"]}),
    ("fullnameOverride", {"fullnameOverride": "Dwd"}),
    ("labels", {"labels": {"a/b/c": "x"}}),
    ("labels/owner", {"labels": {"owner": True}}),
    ("clusterDomain", {"clusterDomain": "cluster..local"}),
    ("prober", {"prober": {"extra": 1}}),
    ("prober", {"prober": {"vpa": None}}),
    ("prober/enabled", {"prober": {"enabled": "yes"}}),
    ("prober/config", prober(probeIntervall="10s")),
    ("prober/config/internalKubeConfigSecretName", prober(internalKubeConfigSecretName="A")),
    ("prober/config/externalKubeConfigSecretName", prober(externalKubeConfigSecretName="")),
    (
        "prober/config/internalProbeFailureBackoffDuration",
        prober(internalProbeFailureBackoffDuration="30"),
    ),
    (PROBES, prober(endpointProbes={})),
    (f"{PROBES}/0", probe(intervalSeconds=1)),
    (f"{PROBES}/0", probe(name=None)),
    (f"{PROBES}/0/name", probe(name="A")),
    (f"{PROBES}/0/name", probe(name="a" * 64)),
    (f"{PROBES}/0/type", probe(type="readiness")),
    (f"{PROBES}/0/effect", probe(effect="Gate")),
    (f"{PROBES}/0/host", probe(host="user@x.org")),
    (f"{PROBES}/0/host", probe(host="x.org/healthz")),
    (f"{PROBES}/0/host", probe(host="x.org:443")),
    (f"{PROBES}/0/host", probe(host="")),
    (f"{PROBES}/0/container", probe(container="A")),
    (f"{PROBES}/0/podSelector", probe(podSelector={"matchLabel": {}})),
    (f"{PROBES}/0/initialDelaySeconds", probe(initialDelaySeconds=-1)),
    (f"{PROBES}/0/periodSeconds", probe(periodSeconds=0)),
    (f"{PROBES}/0/periodSeconds", probe(periodSeconds="10s")),
    (f"{PROBES}/0/timeoutSeconds", probe(timeoutSeconds=0)),
    (f"{PROBES}/0/successThreshold", probe(successThreshold=0)),
    (f"{PROBES}/0/failureThreshold", probe(failureThreshold=1.5)),
    (f"{PROBES}/0/tcpSocket", probe(tcpSocket={"port": 1, "service": "x"})),
    (f"{PROBES}/0/tcpSocket", probe(tcpSocket={})),
    (f"{PROBES}/0/tcpSocket/port", probe(tcpSocket={"port": 0})),
    (f"{PROBES}/0/tcpSocket/port", probe(tcpSocket={"port": "443"})),
    (f"{PROBES}/0/tcpSocket/port", probe(tcpSocket={"port": "name-of-16-chars"})),
    (f"{PROBES}/0/httpGet/port", probe(httpGet={"port": 65536})),
    (f"{PROBES}/0/httpGet/host", probe(httpGet={"port": 1, "host": "https://x.org"})),
    (f"{PROBES}/0/httpGet/scheme", probe(httpGet={"port": 1, "scheme": "https"})),
    (f"{PROBES}/0/httpGet/path", probe(httpGet={"port": 1, "path": "healthz"})),
    (f"{PROBES}/0/httpGet/path", probe(httpGet={"port": 1, "path": "/#top"})),
    (
        f"{PROBES}/0/httpGet/httpHeaders/0/name",
        probe(httpGet={"port": 1, "httpHeaders": [{"name": "A:", "value": "x"}]}),
    ),
    (
        f"{PROBES}/0/httpGet/httpHeaders/0/value",
        probe(httpGet={"port": 1, "httpHeaders": [{"name": "A", "value": "x\r\ny"}]}),
    ),
    (f"{PROBES}/0/grpc/port", probe(grpc={"port": "grpc"})),
    (f"{PROBES}/0/grpc/service", probe(grpc={"port": 1, "service": 1})),
    (f"{PROBES}/0/exec", probe(exec={})),
    (f"{PROBES}/0/exec/command", probe(exec={"command": []})),
    (f"{PROBES}/0/exec/command", probe(exec={"command": "/bin/true"})),
    ("prober/config/kubeConfigSecretName", prober(kubeConfigSecretName="")),
    ("prober/config/kubeConfigSecretName", prober(kubeConfigSecretName="a_b")),
    ("prober/config/probeInterval", prober(probeInterval=10)),
    ("prober/config/probeInterval", prober(probeInterval="10")),
    ("prober/config/probeInterval", prober(probeInterval="0s")),
    ("prober/config/probeInterval", prober(probeInterval="-1s")),
    ("prober/config/initialDelay", prober(initialDelay="1 m")),
    ("prober/config/backoffJitterFactor", prober(backoffJitterFactor=1.5)),
    ("prober/config/nodeLeaseFailureFraction", prober(nodeLeaseFailureFraction=0)),
    ("prober/config/nodeLeaseFailureFraction", prober(nodeLeaseFailureFraction="0.6")),
    ("prober/config/failureThreshold", prober(failureThreshold=0)),
    ("prober/config/successThreshold", prober(successThreshold=1.5)),
    ("prober/config/onScaleUpFailure", prober(onScaleUpFailure="stop")),
    (DEPENDENTS, prober(dependentResourceInfos=[])),
    (f"{DEPENDENTS}/0", prober(dependentResourceInfos=[dependent(required=True)])),
    (f"{DEPENDENTS}/0", prober(dependentResourceInfos=[{"ref": dependent()["ref"]}])),
    (f"{DEPENDENTS}/0/optional", prober(dependentResourceInfos=[dependent(optional="no")])),
    (f"{DEPENDENTS}/0/scaleUp", prober(dependentResourceInfos=[dependent(scaleUp={"x": 1})])),
    (
        f"{DEPENDENTS}/0/scaleUp/level",
        prober(dependentResourceInfos=[dependent(scaleUp={"level": -1})]),
    ),
    (
        f"{DEPENDENTS}/0/scaleDown/timeout",
        prober(dependentResourceInfos=[dependent(scaleDown={"timeout": "0s"})]),
    ),
    (f"{DEPENDENTS}/0/ref", refs(namespace="x")),
    (f"{DEPENDENTS}/0/ref/apiVersion", refs(apiVersion="apps")),
    (f"{DEPENDENTS}/0/ref/kind", refs(kind="deployment")),
    (f"{DEPENDENTS}/0/ref/name", refs(name="X")),
    (f"{DEPENDENTS}/0/ref/resource", refs(resource="deployments/scale")),
    ("prober/flags", {"prober": {"flags": {"maxDeletionsPerSecond": 1}}}),
    ("prober/flags/kubeApiQps", {"prober": {"flags": {"kubeApiQps": -1}}}),
    ("prober/flags/scaleDownQps", {"prober": {"flags": {"scaleDownQps": 0}}}),
    ("prober/flags/concurrentReconciles", {"prober": {"flags": {"concurrentReconciles": 0}}}),
    ("prober/flags", {"prober": {"flags": {"allowExec": None}}}),
    ("prober/flags/allowExec", {"prober": {"flags": {"allowExec": "yes"}}}),
    ("serve/flags/externalServerPattern", {"serve": {"flags": {"externalServerPattern": 1}}}),
    ("prober/flags/dryRun", {"prober": {"flags": {"dryRun": "true"}}}),
    ("prober/replicas", {"prober": {"replicas": "2"}}),
    ("prober/terminationGracePeriodSeconds", {"prober": {"terminationGracePeriodSeconds": 1}}),
    ("prober/resources", {"prober": {"resources": {"claims": []}}}),
    ("prober/resources/requests/cpu", {"prober": {"resources": {"requests": {"cpu": "lots"}}}}),
    ("prober/podAnnotations/a", {"prober": {"podAnnotations": {"a": 1}}}),
    ("prober/tolerations/0", {"prober": {"tolerations": [{"keys": "x"}]}}),
    ("prober/tolerations/0/effect", {"prober": {"tolerations": [{"effect": "NoRun"}]}}),
    ("prober/affinity", {"prober": {"affinity": {"podAffinities": {}}}}),
    ("prober/antiAffinity", {"prober": {"antiAffinity": "maybe"}}),
    ("prober/topologySpreadConstraints/0", {"prober": {"topologySpreadConstraints": [{}]}}),
    ("prober/pdb/maxUnavailable", {"prober": {"pdb": {"maxUnavailable": "half"}}}),
    ("prober/vpa/updateMode", {"prober": {"vpa": {"updateMode": "On"}}}),
    ("weeder/config", weeder(minBackoff="1s")),
    ("weeder/config/watchDuration", weeder(watchDuration="0")),
    ("weeder/config/maxDeletionsPerWorkload", weeder(maxDeletionsPerWorkload=0)),
    ("weeder/config/weedBarePods", weeder(weedBarePods=1)),
    (SELECTORS, weeder(servicesAndDependantSelectors={"Web": {"podSelectors": [{}]}})),
    (f"{SELECTORS}/web", weeder(servicesAndDependantSelectors={"web": {}})),
    (
        f"{SELECTORS}/web/podSelectors",
        weeder(servicesAndDependantSelectors={"web": {"podSelectors": []}}),
    ),
    (
        f"{SELECTORS}/web/podSelectors/0",
        weeder(servicesAndDependantSelectors={"web": {"podSelectors": [{"matchLabel": {}}]}}),
    ),
    (
        f"{SELECTORS}/web/podSelectors/0/matchLabels/a",
        weeder(
            servicesAndDependantSelectors={"web": {"podSelectors": [{"matchLabels": {"a": True}}]}}
        ),
    ),
    (f"{SELECTORS}/web/podSelectors/0/matchExpressions/0", selector(key="a", operator="In")),
    (
        f"{SELECTORS}/web/podSelectors/0/matchExpressions/0/operator",
        selector(key="a", operator="in", values=["b"]),
    ),
    (
        f"{SELECTORS}/web/podSelectors/0/matchExpressions/0/values",
        selector(key="a", operator="In", values=[]),
    ),
    (
        f"{SELECTORS}/web/podSelectors/0/matchExpressions/0/values",
        selector(key="a", operator="Exists", values=["b"]),
    ),
    ("weeder/flags/maxDeletionsPerSecond", {"weeder": {"flags": {"maxDeletionsPerSecond": 0}}}),
    ("serve", {"serve": {"config": {}}}),
    ("logging/level", {"logging": {"level": "INFO"}}),
    ("logging/format", {"logging": {"format": "text"}}),
    ("ports/api", {"ports": {"api": 0}}),
    ("ports/metrics", {"ports": {"metrics": 65536}}),
    ("ports/health", {"ports": {"health": "9644"}}),
    ("leaderElection", {"leaderElection": {"namespace": "x"}}),
    ("leaderElection/retryPeriod", {"leaderElection": {"retryPeriod": "2"}}),
    (
        "leaderElection/leaderAddress/addressType",
        {"leaderElection": {"leaderAddress": {"addressType": "FQDN"}}},
    ),
    ("api/auth/mode", {"api": {"auth": {"mode": "basic"}}}),
    ("api/auth/tokenSecret", {"api": {"auth": {"tokenSecret": {"secretName": "x"}}}}),
    ("api/auth/tokenSecret/key", {"api": {"auth": {"tokenSecret": {"key": ".."}}}}),
    ("fullnameOverride", {"fullnameOverride": "1x"}),
    ("fullnameOverride", {"fullnameOverride": "x" * 40}),
    ("image/repository", {"image": {"repository": "https://example.org/x"}}),
    ("image/repository", {"image": {"repository": "example.org/x:1.0"}}),
    ("image/repository", {"image": {"repository": "example.org/X"}}),
    ("api/tls/secretName", {"api": {"tls": {"secretName": "A"}}}),
    ("api/urls/prober", {"api": {"urls": {"prober": "https://x/api"}}}),
    ("api/cors/allowOrigins/0", {"api": {"cors": {"allowOrigins": ["*"]}}}),
    ("api/cors/allowOrigins/0", {"api": {"cors": {"allowOrigins": ["https://x:65536"]}}}),
    ("api/urls/weeder", {"api": {"urls": {"weeder": "https://x:70000"}}}),
    ("api/trustedProxies/0", {"api": {"trustedProxies": ["*"]}}),
    ("api/trustedProxies/0", {"api": {"trustedProxies": ["proxy.garden"]}}),
    ("api/trustedProxies/0", {"api": {"trustedProxies": ["0.0.0.0/0"]}}),
    ("api/trustedProxies/0", {"api": {"trustedProxies": ["::/0"]}}),
    ("api/trustedProxies/0", {"api": {"trustedProxies": ["10.0.0.0/33"]}}),
    ("api/trustedProxies/0", {"api": {"trustedProxies": ["10.0.0.1,10.0.0.2"]}}),
    ("api/ingress/host", {"api": {"ingress": {"host": "https://x"}}}),
    ("api/httpRoute/parentRefs/0", {"api": {"httpRoute": {"parentRefs": [{"sectionName": "x"}]}}}),
    ("metrics/perShoot", {"metrics": {"perShoot": "false"}}),
    ("metrics/serviceMonitor/interval", {"metrics": {"serviceMonitor": {"interval": "often"}}}),
    ("networkPolicy/metrics/from/0", {"networkPolicy": {"metrics": {"from": [{}]}}}),
    (
        "networkPolicy/api/from/0/podSelector",
        {"networkPolicy": {"api": {"from": [{"podSelector": {"labels": {}}}]}}},
    ),
    ("networkPolicy/dns/ports", {"networkPolicy": {"dns": {"ports": []}}}),
    (
        "networkPolicy/apiServer/to/0/ipBlock/cidr",
        {"networkPolicy": {"apiServer": {"to": [{"ipBlock": {"cidr": "10.0.0.1"}}]}}},
    ),
    ("networkPolicy/external/ports", {"networkPolicy": {"external": {"ports": []}}}),
    ("networkPolicy/endpointProbes", {"networkPolicy": {"endpointProbes": {"namespaces": None}}}),
    ("networkPolicy/endpointProbes/ports/0", {"networkPolicy": {"endpointProbes": {"ports": [0]}}}),
    ("crds", {"crds": {"keep": False}}),
    ("crds/install", {"crds": {"install": "no"}}),
    ("rbac", {"rbac": {"rules": []}}),
    ("serviceAccount/names", {"serviceAccount": {"names": {"both": "x"}}}),
]


@pytest.mark.parametrize("path", rendering.values_sets(), ids=rendering.name_of)
def test_a_set_that_the_chart_ships_with_is_right(path: Path) -> None:
    assert not mistakes(yaml.safe_load(path.read_text()) or {})


def test_there_are_sets_of_both_kinds() -> None:
    names = {path.parent.name for path in rendering.values_sets()}
    assert names == {"ci", "dependency-watchdog"}


@pytest.mark.parametrize(
    ("path", "values"), WRONG, ids=[f"{number}-{path}" for number, (path, _) in enumerate(WRONG)]
)
def test_a_wrong_value_is_refused_with_its_path(path: str, values: dict[str, Any]) -> None:
    assert list(mistakes(values)) == [path]


def test_an_unknown_key_is_named() -> None:
    assert "probeIntervall" in mistakes(prober(probeIntervall="10s"))["prober/config"]


@pytest.mark.parametrize("path", [each.path for each in parts() if "properties" in each.schema])
def test_an_object_refuses_keys_that_it_does_not_know(path: str) -> None:
    found = next(each.schema for each in parts() if each.path == path)
    assert found["additionalProperties"] is False


def test_an_object_without_named_keys_says_what_its_keys_may_be() -> None:
    for part in parts():
        if part.schema.get("type") == "object" and "properties" not in part.schema:
            known = part.path in FREE or part.schema.get("additionalProperties") is False
            assert known or isinstance(part.schema.get("additionalProperties"), dict), part.path


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


def test_patterns_need_nothing_that_go_does_not_have() -> None:
    """Helm reads the schema with Go's regular expressions: no looking around, no references back."""
    patterns = [each.schema["pattern"] for each in parts() if "pattern" in each.schema]
    patterns += [name for each in parts() for name in each.schema.get("patternProperties", {})]
    assert len(patterns) > 50
    assert not [each for each in patterns if "(?" in each or "\\1" in each]


def test_the_schema_itself_is_one() -> None:
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    meta.validate(schema())


def test_a_section_that_is_taken_away_as_a_whole_is_missed() -> None:
    for name in ("prober", "api", "metrics", "networkPolicy", "crds", "ports"):
        assert list(mistakes({name: None})) == [""]


def test_what_is_optional_in_a_file_may_be_null() -> None:
    names = [name for name, each in at("prober.config")["properties"].items() if _nullable(each)]
    assert not mistakes(prober(**dict.fromkeys(names)))
    assert (
        over_defaults(prober(probeInterval=None))["prober"]["config"].get("probeInterval") is None
    )


def _nullable(found: dict[str, Any]) -> bool:
    return "null" in found.get("type", ()) or None in found.get("enum", ())


NEEDED = [
    f"alerts.rules.{name}.{key}"
    for name, rule in defaults()["alerts"]["rules"].items()
    for key, value in rule.items()
    if value is not None
] + [
    f"alerts.rules.{name}.{step}.{key}"
    for name, rule in defaults()["alerts"]["rules"].items()
    for step, values in rule.items()
    if isinstance(values, dict)
    for key in values
]
"""What an alert is written with, and nothing else says: without it there would be one that Prometheus does not take."""


@pytest.mark.parametrize("path", NEEDED)
def test_a_threshold_that_is_taken_away_is_missed(path: str) -> None:
    *parents, key = path.split(".")
    values: dict[str, Any] = {key: None}
    for each in reversed(parents):
        values = {each: values}
    assert list(mistakes(values)) == ["/".join(parents)]


@pytest.mark.parametrize("port", [1, 80, 8443, 59999, 60000, 64999, 65499, 65529, 65535])
def test_a_port_may_be_any_that_there_is(port: int) -> None:
    assert not mistakes({"api": {"cors": {"allowOrigins": [f"https://x.org:{port}"]}}})


@pytest.mark.parametrize("repository", ["x", "x/y_z", "h:5000/a/b", "H.example.org/a.b/c--d"])
def test_a_repository_is_taken_as_a_registry_has_it(repository: str) -> None:
    assert not mistakes({"image": {"repository": repository}})
