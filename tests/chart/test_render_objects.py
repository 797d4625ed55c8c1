"""What is around the pods: Services, the leader's address, network policies, monitors, certificates, names, notes."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.commands import Help, parse
from tests.chart import rendering
from tests.chart.cluster import Cluster, Clusters
from tests.chart.customresources import FILES, GROUP, NAMES, definition
from tests.chart.rendering import CHART, Json, Renderer, Rendering
from tests.chart.tools import Tool

pytestmark = pytest.mark.real

SETS = pytest.mark.parametrize("values", rendering.values_sets(), ids=rendering.name_of)
HA = CHART / "values-ha.yaml"
MESH, TOKEN = CHART / "ci/mesh-values.yaml", CHART / "ci/token-values.yaml"
COUNTS = {
    "replicas",
    "maxSurge",
    "maxUnavailable",
    "weight",
    "failureThreshold",
    "periodSeconds",
    "timeoutSeconds",
    "revisionHistoryLimit",
    "terminationGracePeriodSeconds",
    *("minLength", "maxLength", "maxItems", "minimum", "priority"),
}
"""Keys of small numbers."""
NAMED = "fullnameOverride=noted"
"""For a release that others, which are installed in the same cluster, are not in the way of."""


@SETS
def test_every_selector_finds_the_pods_of_one_deployment(render: Renderer, values: Path) -> None:
    rendered = render(values)
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in rendered.of("Deployment")
    }
    for name, selector in selectors(rendered):
        found = [each for each, labels in pods.items() if selector.items() <= labels.items()]
        assert found == [name.removesuffix("-metrics")]


@SETS
def test_names_fit_into_a_service_and_those_of_pods_into_a_host_name(
    render: Renderer, values: Path
) -> None:
    """A leader is known by its host name, and looked for by it as a pod."""
    for name in ({"release": "r" * 53}, {"values": {"fullnameOverride": "x" * 39}}):
        rendered = render(values, **name)
        assert all(len(each["metadata"]["name"]) <= 63 for each in rendered.of("Service"))
        for each in rendered.of("Deployment"):
            assert len(each["metadata"]["name"] + "-5f7d8c9b64-x2x4k") <= 63


def test_a_release_may_have_dots_in_its_name(render: Renderer) -> None:
    names = {each["metadata"]["name"] for each in render(HA, release="dwd.v1").of("Service")}
    assert "dwd-v1-dependency-watchdog-prober-leader" in names
    assert not [name for name in names if "." in name]


@pytest.mark.parametrize("word", ["on", "null", "y", "e3"])
def test_a_name_that_yaml_takes_for_something_else_is_a_name(render: Renderer, word: str) -> None:
    """Save that of the PrometheusRule, which is tested with the alerts."""
    rendered = render(TOKEN, values={"fullnameOverride": word})
    assert rendered.one("Ingress")["metadata"]["name"] == word
    assert all(isinstance(each["metadata"]["name"], str) for each in rendered.objects)


@pytest.mark.parametrize("tag", ["_v1-", "v1.0-", "x" * 62 + "-y"])
def test_a_tag_that_is_no_label_is_made_one(render: Renderer, tag: str) -> None:
    for each in render(values={"image": {"tag": tag}}).objects:
        version = each["metadata"]["labels"]["app.kubernetes.io/version"]
        assert version == tag[:63].strip("-_.")


def test_names_that_look_like_numbers_are_names(render: Renderer) -> None:
    named = {
        "nameOverride": "1",
        "labels": {"example.org/x": "1e3"},
        "imagePullSecrets": [{"name": "2"}],
        "prober": {"config": {"kubeConfigSecretName": "3"}, "priorityClassName": "4"},
        "serviceAccount": {"names": {"prober": "5"}},
        "api": {
            "auth": {"mode": "token", "tokenSecret": {"name": "6", "key": "7"}},
            "tls": {"secretName": "8"},
            "ingress": {"enabled": True, "className": "9", "host": "1.2", "tlsSecretName": "10"},
        },
        "metrics": {
            "auth": True,
            "podMonitor": {"enabled": True, "authorization": {"name": "11", "key": "12"}},
        },
    }
    rendered = render(values=named, namespace="123", release="e456")
    for each in rendered.objects:
        assert not [word for word in numbers(each) if str(word) in _NAMES], each["metadata"]["name"]


_NAMES = {"1", "1e3", "1000.0", "1.2", *map(str, range(2, 13)), "123", "456"}


def numbers(found: object, key: str = "") -> Iterator[object]:
    """The numbers in an object, but for those that say how many."""
    if isinstance(found, dict):
        for name, each in found.items():
            yield from numbers(each, str(name))
    elif isinstance(found, list):
        for each in found:
            yield from numbers(each, key)
    elif isinstance(found, int | float) and not isinstance(found, bool) and key not in COUNTS:
        yield found


@SETS
def test_accounts_are_those_of_the_namespace_of_the_release(render: Renderer, values: Path) -> None:
    rendered = render(values, namespace="elsewhere")
    for binding in [*rendered.of("RoleBinding"), *rendered.of("ClusterRoleBinding")]:
        if not binding["metadata"]["name"].endswith("-tokens"):  # those are the operator's own
            assert {each["namespace"] for each in binding["subjects"]} == {"elsewhere"}


def test_the_certificate_has_the_names_of_the_services(render: Renderer) -> None:
    rendered = render(HA)
    names = set(rendered.one("Certificate")["spec"]["dnsNames"])
    for service in rendered.of("Service"):
        name = service["metadata"]["name"]
        if not name.endswith("-metrics"):
            assert {f"{name}.garden.svc", f"{name}.garden.svc.cluster.local"} <= names


def test_the_pods_have_the_secret_of_the_certificate(render: Renderer) -> None:
    rendered = render(HA)
    secret = rendered.one("Certificate")["spec"]["secretName"]
    for deployment in rendered.of("Deployment"):
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        assert {"name": "tls", "secret": {"secretName": secret, "defaultMode": 0o440}} in volumes


# The network.


@SETS
def test_what_a_policy_does_not_name_is_denied(render: Renderer, values: Path) -> None:
    for each in render(values).of("NetworkPolicy"):
        assert each["spec"]["policyTypes"] == ["Ingress", "Egress"]
        for rule in [*each["spec"]["ingress"], *each["spec"]["egress"]]:
            assert rule["ports"], "a rule without ports opens all of them"


@SETS
def test_the_ports_of_a_pod_are_let_in_and_no_others(render: Renderer, values: Path) -> None:
    rendered = render(values)
    for policy in rendered.of("NetworkPolicy"):
        deployment = rendered.one("Deployment", policy["metadata"]["name"])
        (main,) = deployment["spec"]["template"]["spec"]["containers"]
        let_in = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert let_in == {port["containerPort"] for port in main["ports"]}


def test_only_a_prober_goes_to_shoots(render: Renderer) -> None:
    for component, there in (("prober", True), ("weeder", False)):
        egress = render().one("NetworkPolicy", f"dependency-watchdog-{component}")["spec"]["egress"]
        assert ("gardener.cloud/role" in str(egress)) is there
        assert {port["port"] for port in egress[1]["ports"]} == {443, 6443}


# What others watch and scale.


def test_the_namespace_of_a_series_stays_that_of_the_shoot(render: Renderer) -> None:
    for rendered, kind, key in (
        (render(HA), "ServiceMonitor", "endpoints"),
        (render(MESH), "PodMonitor", "podMetricsEndpoints"),
    ):
        for monitor in rendered.of(kind):
            (endpoint,) = monitor["spec"][key]
            assert endpoint["honorLabels"] is True
            name = monitor["metadata"]["name"]
            assert {"targetLabel": "job", "replacement": name} in endpoint["relabelings"]


def test_a_monitor_scrapes_each_pod_once(render: Renderer) -> None:
    rendered = render(HA)
    for monitor in rendered.of("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found = [
            each["metadata"]["name"]
            for each in rendered.of("Service")
            if wanted.items() <= each["metadata"]["labels"].items()
        ]
        assert found == [f"{monitor['metadata']['name']}-metrics"]
        assert rendered.one("Service", found[0])["spec"]["clusterIP"] == "None"


# The chart's own kinds.


def test_the_definitions_are_those_of_the_files(renders: Renderer) -> None:
    rendered = renders(values={"labels": {"example.org/team": "garden"}})
    found = {each["metadata"]["name"]: each for each in rendered.of("CustomResourceDefinition")}
    assert found.keys() == NAMES
    for path in FILES:
        own, made = definition(path), found[f"{path.stem}.{GROUP}"]
        assert (made["apiVersion"], made["spec"]) == (own["apiVersion"], own["spec"])
        assert made["metadata"]["labels"]["example.org/team"] == "garden"


@SETS
def test_helm_keeps_the_definitions(render: Renderer, values: Path) -> None:
    """With them would go all that people have decided."""
    found = render(values).of("CustomResourceDefinition")
    assert len(found) == len(FILES)
    for each in found:
        assert each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_somebody_else_may_install_the_definitions(render: Renderer) -> None:
    without = render(values={"crds": {"install": False}})
    others = [each for each in render().objects if each["kind"] != "CustomResourceDefinition"]
    assert list(without.objects) == others


# What helm says in the end.


LEASES = "get lease dwd-prober-leader-election dwd-weeder-leader-election"
NO_REGISTRY = "The image dependency-watchdog:0.1.0 names no registry (image.repository)"
PAUSES, NO_PAUSES = "kubectl get pauses,scalerequests --all-namespaces", "Nobody can pause"
CLEAR, NO_LINK = "tokens travel in the clear", "runbook in the dashboards lead nowhere"
JOBS = "set it, noted-prober and noted-weeder, and both are"
INGRESS = "api.ingress.enabled=true api.ingress.host=x.org"
BOARDS = "dashboards.enabled=true dashboards.runbookUrl"
UNWATCHED = "metrics.serviceMonitor.enabled=false"
NOTES: dict[str, tuple[list[str], list[str]]] = {
    "": (
        [
            *(LEASES, NO_REGISTRY, PAUSES, "--clusterrole=noted-viewer"),
            "dwd shoots --port-forward garden/noted-prober --token-file token",
            "https://noted-prober-leader.garden.svc:8080/api/v1/status",
        ],
        ["Left out", "endpoint mode", NO_PAUSES, "--service-account", CLEAR, NO_LINK, JOBS],
    ),
    "prober.flags.dryRun=true weeder.flags.dryRun=true": (
        ["port-forward deployment/noted-prober"],
        ["get lease"],
    ),
    "prober.flags.dryRun=true": (
        ["get lease dwd-weeder-leader-election\n", "port-forward deployment/noted-prober"],
        [],
    ),
    "api.auth.serviceAccounts.create=true": (
        ["--port-forward garden/noted-prober --service-account garden/noted-viewer", "dwd page"],
        ["--token-file"],
    ),
    # of what has nothing to do with each other, together
    f"image.repository=registry.example.org/x crds.install=false rbac.create=false {INGRESS} {UNWATCHED} {BOARDS}=": (
        [NO_PAUSES, CLEAR, JOBS],
        [PAUSES, "noted-viewer", NO_REGISTRY, NO_LINK],
    ),
    f"image.repository=localhost/x api.auth.callerRoles=false {INGRESS} api.ingress.tlsSecretName=x "
    f"{UNWATCHED} metrics.podMonitor.enabled=true {BOARDS}=docs/runbook.md": (
        [PAUSES, NO_LINK],
        ["noted-viewer", NO_REGISTRY, CLEAR, JOBS],
    ),
    f"{UNWATCHED} alerts.jobs.prober=mine {BOARDS}=https://x.org/r.md": ([], [JOBS, NO_LINK]),
    f"{UNWATCHED} alerts.enabled=false {BOARDS}=http://x.org/": ([], [JOBS, NO_LINK]),
    f"{BOARDS}=httpsdocs": ([NO_LINK], []),
}
"""With which values beside those for high availability they say what, and what not."""


@pytest.mark.parametrize("values", NOTES)
def test_the_notes_say_what_is_so_and_nothing_else(
    clusters: Clusters, helm4: Tool, values: str
) -> None:
    said, unsaid = NOTES[values]
    found = notes(clusters.full, helm4, *(f"--set={each}" for each in values.split()))
    assert [each for each in said if each not in found] == []
    assert [each for each in unsaid if each in found] == []


def test_the_notes_name_what_was_left_out(clusters: Clusters, helm4: Tool) -> None:
    said = notes(clusters.bare, helm4)
    for version in ("monitoring.coreos.com/v1", "autoscaling.k8s.io/v1", "cert-manager.io/v1"):
        assert f"- {version}, which" in said
    assert "The pods wait for the Secret noted-tls" in said


def test_the_notes_name_the_secrets_that_endpoint_mode_needs(
    clusters: Clusters, helm4: Tool
) -> None:
    said = notes(clusters.full, helm4, f"--values={CHART / 'values-endpoint-mode.yaml'}")
    assert "dependency-watchdog-internal-probe dependency-watchdog-external-probe." in said


@pytest.mark.parametrize("values", ["", "values-weeder-only", "values-serve", "values-minimal"])
def test_the_commands_of_ours_in_the_notes_are_taken_by_the_program(
    clusters: Clusters, helm4: Tool, values: str
) -> None:
    more = [f"--values={CHART / values}.yaml"] if values else []
    said = notes(clusters.full, helm4, *more).splitlines()
    found = [shlex.split(line)[1:] for line in said if line.strip().startswith("dwd ")]
    assert found
    for words in found:
        assert not isinstance(parse(words, {}), Help)


def notes(cluster: Cluster, helm: Tool, *more: str) -> str:
    tool = cluster.helm(helm)
    words = ("--namespace=garden", "--dry-run=server", f"--values={HA}", f"--set={NAMED}", *more)
    return tool("install", "noted", CHART, *words).partition("NOTES:")[2]


def selectors(rendered: Rendering) -> list[tuple[str, Json]]:
    """The pod selectors of everything that has one, with the name of the object."""
    found: list[tuple[str, Json]] = []
    for each in rendered.objects:
        name, spec = each["metadata"]["name"], each.get("spec") or {}
        if each["kind"] == "Service" and "selector" in spec:
            found.append((name, spec["selector"]))
        if each["kind"] in {"Deployment", "PodDisruptionBudget", "PodMonitor"}:
            found.append((name, spec["selector"]["matchLabels"]))
        if each["kind"] == "NetworkPolicy":
            found.append((name, spec["podSelector"]["matchLabels"]))
    return found
