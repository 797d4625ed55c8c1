"""Install, upgrade, roll back, remove: with either helm, into a real API server, and what each leaves behind."""

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cluster import Clusters
from tests.chart.customresources import FOLDER, GROUP, NAMES
from tests.chart.releases import OPTIONAL, Release
from tests.chart.tools import Failed, Tool
from tests.e2e import gardener

Json = dict[str, Any]

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

EXPOSED: Json = {"api": {"tls": {"secretName": "api-tls"}}, "crds": {"install": False}}
"""Without the definitions, which one release has for all others: they have tests of their own below."""
EVERYTHING: Json = {
    **EXPOSED,
    "prober": {"vpa": {"enabled": True}},
    "metrics": {"serviceMonitor": {"enabled": True}},
    "alerts": {"enabled": True, "runbookUrl": "https://docs.example.org/runbook.md"},
    "dashboards": {"enabled": True},
}
CHANGED: Json = {**EXPOSED, "prober": {"replicas": 3, "config": {"probeInterval": "20s"}}}
NUMBERS = count()
ONE_HELM = pytest.mark.parametrize("helm", ["helm4"], indirect=True)
"""For what the server takes or the chart makes; how a helm installs, upgrades and removes is tried with both."""
LEADER = [{"addresses": ["10.244.0.7"], "conditions": {"ready": True}}]


@pytest.fixture
def release(clusters: Clusters, tmp_path: Path) -> Release:
    """A release that no other test has; all its objects have its name."""
    return Release(clusters.full, f"dependency-watchdog-{next(NUMBERS)}", tmp_path)


@pytest.fixture
def installed(release: Release, helm: Tool) -> Release:
    """The same, installed."""
    release.install(helm, EXPOSED)
    return release


def test_what_is_there_after_an_installation_is_what_was_rendered(
    release: Release, helm: Tool
) -> None:
    release.install(helm, EVERYTHING)
    there = {plain(each) for each in release.there(OPTIONAL)}
    assert there == rendered(release.manifest(helm))
    assert {"prometheusrule", "servicemonitor", "verticalpodautoscaler"} <= {k for k, _ in there}


@ONE_HELM
def test_a_cluster_without_the_kinds_of_others_is_installed_into_and_told_what_was_left_out(
    clusters: Clusters, helm: Tool, tmp_path: Path
) -> None:
    release = Release(clusters.bare, f"dependency-watchdog-{helm.path.name}", tmp_path)
    printed = release.install(helm, EVERYTHING)
    assert {plain(each) for each in release.there()} == rendered(release.manifest(helm))
    told = printed.partition("Left out")[2]
    assert "prober.vpa" in told
    assert "metrics.serviceMonitor, alerts" in told


def test_an_upgrade_brings_the_new_values_and_a_rollback_the_former_ones(
    installed: Release, helm: Tool
) -> None:
    """The leader's address stays, and what old pods need; what has not changed is not rolled out."""
    before, files = installed.get("deployment", "prober"), installed.config_maps()
    ports = [{"name": "api", "port": 8080, "protocol": "TCP"}]
    installed.patch("endpointslice", "prober-leader", {"endpoints": LEADER, "ports": ports})
    installed.upgrade(helm, CHANGED)
    after = installed.get("deployment", "prober")
    assert (before["spec"]["replicas"], after["spec"]["replicas"]) == (2, 3)
    assert config_of(before) != config_of(after)
    assert (interval(installed, after), leader(installed)) == ("20s", "10.244.0.7")
    assert installed.config_maps() == files | {f"configmap/{config_of(after)}"}
    assert installed.get("deployment", "weeder")["metadata"]["generation"] == 1
    installed.do(helm, "rollback", "1")
    again = installed.get("deployment", "prober")
    assert again["spec"]["template"]["spec"] == before["spec"]["template"]["spec"]
    assert again["spec"]["replicas"] == 2
    assert (interval(installed, again), leader(installed)) == ("10s", "10.244.0.7")


def test_an_upgrade_that_changes_nothing_scales_up_what_somebody_has_scaled_to_0(
    installed: Release, helm: Tool
) -> None:
    """As the runbook says where it stops the watchdog altogether; nothing else is rolled out."""
    given = (f"{installed.name}-weeder", "--replicas=0", f"--namespace={installed.namespace}")
    installed.cluster.kubectl("scale", "deployment", *given)
    installed.upgrade(helm, EXPOSED)
    assert installed.get("deployment", "weeder")["spec"]["replicas"] == 2
    assert installed.get("deployment", "prober")["metadata"]["generation"] == 1


@ONE_HELM
def test_values_that_are_refused_change_nothing(installed: Release, helm: Tool) -> None:
    wrong = {**EXPOSED, "prober": {"config": {"probeInterval": "10"}}}
    with pytest.raises(Failed, match="probeInterval"):
        installed.upgrade(helm, wrong)
    assert installed.revision(helm) == 1
    assert installed.get("deployment", "prober")["metadata"]["generation"] == 1


def test_a_removal_leaves_the_files_of_the_program_and_nothing_else(
    installed: Release, helm: Tool
) -> None:
    files = installed.config_maps()
    printed = installed.do(helm, "uninstall")
    assert installed.there(OPTIONAL) == files
    assert len(files) == 2
    assert "kept" in printed, "helm says so"
    installed.install(helm, EXPOSED)
    assert interval(installed, installed.get("deployment", "prober")) == "10s", "once more"


@ONE_HELM
def test_a_deployment_of_somebody_else_is_in_the_way_until_it_is_deleted(
    release: Release, helm: Tool
) -> None:
    """As Gardener's are, under their usual names: to own them is not enough, they select their pods by other labels."""
    theirs = gardener.deployment(f"{release.name}-prober", "any")
    theirs["metadata"]["namespace"] = release.cluster.namespace(release.namespace)
    release.cluster.kubectl("create", "--filename=-", stdin=json.dumps(theirs))
    with pytest.raises(Failed, match="cannot be imported into the current release"):
        release.install(helm, EXPOSED)
    with pytest.raises(Failed, match=r"field is immutable|\.spec\.selector"):
        release.install(helm, EXPOSED, "--take-ownership")
    release.do(helm, "uninstall")
    where = f"--namespace={release.namespace}"
    release.cluster.kubectl(
        "delete", "deployment", f"{release.name}-prober", where, "--ignore-not-found"
    )
    release.install(helm, EXPOSED)
    assert interval(release, release.get("deployment", "prober")) == "10s"


@ONE_HELM
def test_one_process_takes_the_place_of_two_and_back(installed: Release, helm: Tool) -> None:
    before = installed.there()
    installed.upgrade(helm, {**EXPOSED, "mode": "serve"})
    deployments = {each for each in installed.there() if each.startswith("deployment")}
    assert deployments == {f"deployment.apps/{installed.name}-serve"}
    installed.upgrade(helm, EXPOSED)
    assert before <= installed.there()


def test_helm_4_takes_over_what_helm_3_has_installed(
    clusters: Clusters, helm3: Tool, helm4: Tool, tmp_path: Path
) -> None:
    release = Release(clusters.full, "dependency-watchdog-3-to-4", tmp_path)
    release.install(helm3, EXPOSED)
    ports = [{"name": "api", "port": 8080, "protocol": "TCP"}]
    release.patch("endpointslice", "prober-leader", {"endpoints": LEADER, "ports": ports})
    release.upgrade(helm4, CHANGED)
    assert interval(release, release.get("deployment", "prober")) == "20s"
    assert leader(release) == "10.244.0.7"
    release.do(helm4, "rollback", "1")
    assert interval(release, release.get("deployment", "prober")) == "10s"
    release.do(helm4, "uninstall")
    assert release.there(OPTIONAL) == release.config_maps()


# The definitions of the chart's own kinds.

DEFINING: Json = {**EXPOSED, "crds": {"install": True}}
PAUSE: Json = {
    "apiVersion": f"{GROUP}/v1alpha1",
    "kind": "Pause",
    "metadata": {"name": "x"},
    "spec": {"reason": "a test"},
}


@pytest.fixture
def undefined(release: Release) -> Iterator[Release]:
    """A release, not installed yet, in a cluster without the definitions."""
    yield release
    kubectl = release.cluster.kubectl
    kubectl("delete", "crd", *NAMES, "--ignore-not-found", "--wait=false")
    # An API server that has only just served a kind may take minutes to clean up behind its definition.
    for _ in range(6):
        if not (left := defined(release)):
            return
        with suppress(Failed):
            kubectl("wait", "--for=delete", "--timeout=40s", *(f"crd/{name}" for name in left))
    assert not defined(release)


def defined(release: Release) -> set[str]:
    """The definitions that are there."""
    found = release.cluster.names("customresourcedefinitions")
    return {each.partition("/")[2] for each in found if each.endswith(f".{GROUP}")}


def paused(release: Release) -> None:
    """Makes a Pause in the namespace of the release, as soon as one can be made."""
    crds = [f"crd/{name}" for name in NAMES]
    release.cluster.kubectl("wait", "--for=condition=Established", *crds)
    where = f"--namespace={release.namespace}"
    release.cluster.kubectl("create", "--filename=-", where, stdin=json.dumps(PAUSE))


def pauses(release: Release) -> set[str]:
    """The Pauses that are there."""
    return release.cluster.names("pauses", f"--namespace={release.namespace}")


def test_the_definitions_come_with_an_upgrade_are_renewed_and_outlive_every_way_back(
    undefined: Release, helm: Tool
) -> None:
    """And with them what people have decided."""
    undefined.install(helm, EXPOSED)
    assert not defined(undefined)
    undefined.upgrade(helm, DEFINING)
    paused(undefined)
    older, name = [{"op": "remove", "path": "/spec/names/shortNames"}], min(NAMES)
    undefined.cluster.kubectl("patch", "crd", name, "--type=json", f"--patch={json.dumps(older)}")
    undefined.upgrade(helm, {**DEFINING, "labels": {"example.org/newer": "x"}})
    found = undefined.cluster.get("crd", name, undefined.namespace)
    assert found["metadata"]["labels"]["example.org/newer"] == "x"
    undefined.do(helm, "rollback", "1")
    undefined.upgrade(helm, DEFINING)
    undefined.upgrade(helm, EXPOSED)
    assert (defined(undefined), len(pauses(undefined))) == (NAMES, 1)
    undefined.upgrade(helm, DEFINING)
    printed = undefined.do(helm, "uninstall")
    assert all(name in printed for name in NAMES), "helm says what it keeps"
    undefined.install(helm, DEFINING)
    assert (defined(undefined), len(pauses(undefined))) == (NAMES, 1)


@ONE_HELM
def test_definitions_of_somebody_else_are_taken_over_when_helm_is_told_to(
    undefined: Release, helm: Tool
) -> None:
    undefined.cluster.kubectl("apply", f"--filename={FOLDER}")
    with pytest.raises(Failed, match="cannot be imported into the current release"):
        undefined.install(helm, DEFINING)
    undefined.install(helm, DEFINING, "--take-ownership")
    undefined.do(helm, "uninstall")
    assert defined(undefined) == NAMES


def plain(name: str) -> tuple[str, str]:
    """`deployment.apps/x` as kind and name."""
    kind, _, name = name.partition("/")
    return kind.partition(".")[0], name


def rendered(manifest: str) -> set[tuple[str, str]]:
    """The same of a manifest."""
    objects = [each for each in yaml.safe_load_all(manifest) if each]
    return {(each["kind"].lower(), each["metadata"]["name"]) for each in objects}


def config_of(deployment: Json) -> str:
    """The ConfigMap that a Deployment mounts."""
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (found,) = (each["configMap"]["name"] for each in volumes if "configMap" in each)
    return str(found)


def interval(release: Release, deployment: Json) -> str:
    """What the mounted file says."""
    found = release.cluster.get("configmap", config_of(deployment), release.namespace)
    (text,) = found["data"].values()
    return str(yaml.safe_load(text)["probeInterval"])


def leader(release: Release) -> str:
    """The address in the leader's slice; empty where there is none."""
    endpoints = release.get("endpointslice", "prober-leader")["endpoints"] or []
    return endpoints[0]["addresses"][0] if endpoints else ""
