"""The pods as the chart renders them: what they run, what they read, and what they may do on their node."""

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.core.config.flags import CommandSettings, Read, read_flags
from app.core.config.policy_files import parse_prober, parse_weeder
from app.core.config.settings import IN_CLUSTER, ProberSettings, ServeSettings, WeederSettings
from tests.chart import rendering
from tests.chart.rendering import CHART, Json, Renderer, Rendering
from tests.e2e import program, weeder_objects

pytestmark = pytest.mark.real

SETS = pytest.mark.parametrize("values", rendering.values_sets(), ids=rendering.name_of)
MODELS: dict[str, type[CommandSettings]] = {
    "prober": ProberSettings,
    "weeder": WeederSettings,
    "serve": ServeSettings,
}


@SETS
def test_the_program_takes_its_command_without_a_word(render: Renderer, values: Path) -> None:
    for deployment in render(values).of("Deployment"):
        found = read(deployment)
        assert not found.warnings
        assert not found.rest


@SETS
def test_the_program_takes_its_files_without_a_word(render: Renderer, values: Path) -> None:
    allowed = "--allow-exec" in render(values).text
    for each in configurations(render(values)):
        text, name = each["data"]["dep-config.yaml"], each["metadata"]["name"]
        if "-prober-config-" in name:
            found = parse_prober(text, name, strict=True, allow_exec=allowed).warnings
        else:
            found = parse_weeder(text, name, strict=True).warnings
        assert not found


@SETS
def test_a_pod_reads_the_files_that_it_is_told_to_read(render: Renderer, values: Path) -> None:
    rendered = render(values)
    for deployment in rendered.of("Deployment"):
        files = mounted(rendered, deployment)
        words = [word.partition("=") for word in container(deployment)["command"]]
        told = [value for name, _, value in words if name.endswith("-file")]
        assert told
        for path in told:
            assert path in files or str(Path(path).parent) in files, path


@SETS
def test_a_pod_fits_the_restricted_standard(render: Renderer, values: Path) -> None:
    for deployment in render(values).of("Deployment"):
        pod, main = deployment["spec"]["template"]["spec"], container(deployment)
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert main["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} <= {
            "configMap",
            "secret",
        }


@SETS
def test_a_file_with_a_secret_is_readable_for_its_group_at_most(
    render: Renderer, values: Path
) -> None:
    for deployment in render(values).of("Deployment"):
        for volume in deployment["spec"]["template"]["spec"]["volumes"]:
            if "secret" in volume:
                mode = volume["secret"]["defaultMode"]
                assert not mode & (stat.S_IRWXO | stat.S_IWGRP)
                assert mode & stat.S_IRGRP


def test_the_ports_are_those_that_the_program_listens_on(render: Renderer) -> None:
    for name in ("mesh-values", "default-values"):
        for deployment in render(CHART / f"ci/{name}.yaml").of("Deployment"):
            main, settings = container(deployment), read(deployment).settings
            ports = {each["name"]: each["containerPort"] for each in main["ports"]}
            assert ports["metrics"] == settings.metrics_bind_addr.port
            assert ports["health"] == settings.health_bind_addr.port
            if settings.exposure.address.loopback:
                assert "api" not in ports
            else:
                assert ports["api"] == settings.exposure.address.port


@SETS
def test_a_new_pod_has_to_be_ready_before_an_old_one_goes(render: Renderer, values: Path) -> None:
    for deployment in render(values).of("Deployment"):
        rolling = deployment["spec"]["strategy"]["rollingUpdate"]
        assert rolling == {"maxUnavailable": 0, "maxSurge": 1}


def test_another_configuration_is_another_file_for_new_pods_only(render: Renderer) -> None:
    before, after = render(), render(values={"prober": {"config": {"probeInterval": "20s"}}})
    names = [{each["metadata"]["name"] for each in configurations(one)} for one in (before, after)]
    assert len(names[0] & names[1]) == 1  # the weeder's
    for name, same in (("dependency-watchdog-prober", False), ("dependency-watchdog-weeder", True)):
        templates = [each.one("Deployment", name)["spec"]["template"] for each in (before, after)]
        assert (templates[0] == templates[1]) is same
        annotations = [each["metadata"]["annotations"] for each in templates]
        assert (annotations[0] == annotations[1]) is same


@SETS
def test_a_configuration_never_changes_and_is_never_taken_away(
    render: Renderer, values: Path
) -> None:
    for each in configurations(render(values)):
        assert each["immutable"] is True
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_what_has_nothing_to_do_with_it_starts_no_pod_anew(render: Renderer) -> None:
    """The version of the chart, labels of its objects: a rollout is a change of leaders."""
    before = render().one("Deployment", "dependency-watchdog-weeder")
    more = {"metrics": {"serviceMonitor": {"enabled": True}}, "prober": {"replicas": 3}}
    after = render(values=more).one("Deployment", "dependency-watchdog-weeder")
    assert before["spec"]["template"] == after["spec"]["template"]
    assert "helm.sh/chart" not in before["spec"]["template"]["metadata"]["labels"]


def test_the_plural_of_a_kind_is_not_part_of_the_file(render: Renderer) -> None:
    rendered = render(CHART / "ci/dependents-values.yaml")
    assert not [each for each in configurations(rendered) if "resource:" in _text(each)]
    assert "scalers" in rendered.text


def test_a_service_of_null_is_none_wherever_it_came_from(render: Renderer) -> None:
    """Helm takes away what the defaults have; of a service from another file of values it leaves null."""
    rendered = render(
        values={
            "weeder": {
                "config": {"servicesAndDependantSelectors": {"kube-apiserver": None, "mine": None}}
            }
        }
    )
    (found,) = [each for each in configurations(rendered) if "weeder" in each["metadata"]["name"]]
    assert set(parse_weeder(_text(found), "x", strict=True).policy.services) == {"etcd-main-client"}


def test_large_numbers_reach_the_program_as_they_were_written(render: Renderer) -> None:
    flags = {"kubeApiQps": 1234567.5, "kubeApiBurst": 2147483647}
    config = {"failureThreshold": 2147483647}
    rendered = render(values={"prober": {"flags": flags, "config": config}})
    settings = read(rendered.one("Deployment", "dependency-watchdog-prober")).settings
    assert (settings.kube_api_qps, settings.kube_api_burst) == (1234567.5, 2147483647)
    (found,) = [each for each in configurations(rendered) if "prober" in each["metadata"]["name"]]
    assert parse_prober(_text(found), "x", strict=True).policy.failure_threshold == 2147483647


def test_each_loop_is_told_where_its_leader_is_written_and_where_the_other_one_is(
    render: Renderer,
) -> None:
    rendered = render(CHART / "values-ha.yaml")
    for own, other in (("prober", "weeder"), ("weeder", "prober")):
        settings = read(rendered.one("Deployment", f"dependency-watchdog-{own}")).settings
        assert settings.leader_endpointslice == f"dependency-watchdog-{own}-leader"
        peer = f"https://dependency-watchdog-{other}-leader.garden.svc:8080"
        assert settings.peer_url == peer


def test_gardeners_files_say_the_same(render: Renderer) -> None:
    files = {
        "prober": parse_prober(yaml.safe_dump(program.config()), "x", strict=True).policy,
        "weeder": parse_weeder(yaml.safe_dump(weeder_objects.settings()), "x", strict=True).policy,
    }
    for each in configurations(render(CHART / "values-gardener.yaml")):
        loop = each["metadata"]["labels"]["dependency-watchdog.gardener.cloud/config"]
        parse = parse_prober if loop == "prober" else parse_weeder
        assert parse(_text(each), "x", strict=True).policy == files[loop]


def test_gardeners_resource_manager_sees_what_is_in_use(render: Renderer) -> None:
    """By annotations on Deployment and pod whose keys have a part of the hash of the name."""
    rendered = render(CHART / "values-gardener.yaml")
    used = set()
    for deployment in rendered.of("Deployment"):
        template = deployment["spec"]["template"]["metadata"]["annotations"]
        named = {key: value for key, value in template.items() if key.startswith("reference.")}
        assert named.items() <= deployment["metadata"]["annotations"].items()
        used |= set(named.values())
    labels = {
        each["metadata"]["name"]: each["metadata"]["labels"] for each in configurations(rendered)
    }
    assert used == set(labels)
    for found in labels.values():
        assert found["resources.gardener.cloud/garbage-collectable-reference"] == "true"


def container(deployment: Json) -> Json:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def read(deployment: Json) -> Read[Any]:
    """What the program makes of the command, in a pod."""
    _, command, *words = container(deployment)["command"]
    plain = [word.replace("$$(", "$(") for word in words]
    return read_flags(MODELS[command], plain, {IN_CLUSTER: "10.0.0.1"}, "the chart")


def configurations(rendered: Rendering) -> list[Json]:
    label = "dependency-watchdog.gardener.cloud/config"
    return [each for each in rendered.of("ConfigMap") if label in each["metadata"]["labels"]]


def _text(found: Json) -> str:
    return str(found["data"]["dep-config.yaml"])


def mounted(rendered: Rendering, deployment: Json) -> set[str]:
    """The files of ConfigMaps, and the folders of Secrets, that a pod has."""
    volumes = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["volumes"]}
    found = set()
    for mount in container(deployment)["volumeMounts"]:
        assert mount["readOnly"] is True
        volume = volumes[mount["name"]]
        if "secret" in volume:
            found.add(mount["mountPath"])
        else:
            data = rendered.one("ConfigMap", volume["configMap"]["name"])["data"]
            found |= {f"{mount['mountPath']}/{name}" for name in data}
    return found
