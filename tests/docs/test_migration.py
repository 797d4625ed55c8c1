"""docs/migrate.md, followed: Gardener's ConfigMaps, and the page's command lines, Deployment and rights."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from app import commands
from app.core.config.flags import ORIGINAL_FLAGS
from app.core.config.policy_files import parse_prober
from app.core.config.values import AuthMode, LogLevel
from app.core.config.yaml_file import keys_of
from app.core.kube.reviews import permissions_needed, process_permissions, weeder_permissions
from app.core.model.policy import ProberPolicy
from app.core.model.weeding import WeederPolicy
from tests.docs.pages import DOCS, ROOT, Page
from tests.e2e import gardener, objects
from tests.support.programs import printed

PAGE = Page(DOCS / "migrate.md")
BLOCKS = [found.text for language, found in PAGE.blocks if language == "yaml"]
OBJECTS = [each for block in BLOCKS for each in yaml.safe_load_all(block)]
CONFIG_MAPS = Path(__file__).parent / "gardener_config_maps.yaml"
FILES = {
    each["metadata"]["name"].split("-")[2]: each["data"]["dep-config.yaml"]
    for each in yaml.safe_load_all(CONFIG_MAPS.read_text())
}
LINES = {
    line.text.split()[1]: line.text.split()[1:]
    for line in PAGE.shell_lines
    if line.text.startswith("/usr/local/bin/dependency-watchdog")
}
LEASES = {
    "prober": ("garden", "dwd-prober-leader-election"),
    "weeder": ("garden", "dwd-weeder-leader-election"),
}
GARDENER = {
    role: [
        *gardener.cluster_rules(f"dependency-watchdog-{role}"),
        *objects.garden_rules(LEASES[role][1]),
    ]
    for role in ("prober", "weeder")
}
NOT_THE_SEEDS = {"api", "leader-address"}
"""Features that Gardener's arguments leave off, whatever its rights."""


def section(heading):
    return PAGE.text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def first_cells(text):
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]


def names_in(cells):
    return {part for cell in cells for part in cell.split("`")[1::2]}


@pytest.mark.parametrize("role", ["prober", "weeder"])
def test_gardeners_config_map_is_checked_without_a_complaint(role, tmp_path):
    file = tmp_path / f"{role}.yaml"
    file.write_text(FILES[role])
    out, err = io.StringIO(), io.StringIO()
    command = commands.parse(["check-config", str(file)], {})
    assert not isinstance(command, commands.Help)
    assert commands.check_config(command, out, err) == 0
    assert (out.getvalue(), err.getvalue()) == (f"{file}: the {role} file is valid\n", "")


def test_gardeners_config_maps_are_the_files_whose_meaning_the_tests_of_the_parsers_hold():
    for role, place in (("prober", "good"), ("weeder", "weeder/good")):
        held = ROOT / f"tests/core/config/{place}/gardener.yaml"
        assert yaml.safe_load(FILES[role]) == yaml.safe_load(held.read_text())


@pytest.mark.parametrize("role", ["prober", "weeder"])
def test_gardeners_command_line_is_taken_without_a_warning(role):
    command = commands.parse(LINES[role], {"PATH": "/bin", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert not isinstance(command, commands.Help)
    assert command.warnings == ()
    assert command.settings.exposure.address.loopback, "it has no certificate"
    assert command.settings.enable_leader_election
    assert command.settings.log_level is LogLevel.INFO
    assert command.settings.config_file == Path("/etc/dependency-watchdog/config/dep-config.yaml")
    if role == "prober":
        assert (command.settings.kube_api_qps, command.settings.kube_api_burst) == (20, 100)


def test_every_argument_of_the_original_is_in_the_table():
    named = names_in(first_cells(section("Arguments")))
    assert {f"--{each}" for each in ORIGINAL_FLAGS} <= named
    given = {word.partition("=")[0] for line in LINES.values() for word in line[1:]}
    assert given <= named
    commands.parse(
        [
            "prober",
            "--config-file=f",
            *(f"{each}={VALUES.get(each, '1')}" for each in named if each != "--config-file"),
        ],
        {},
    )


VALUES = {
    "--enable-leader-election": "true",
    "--leader-election-namespace": "garden",
    "--leader-elect-lease-duration": "15s",
    "--leader-elect-renew-deadline": "10s",
    "--leader-elect-retry-period": "2s",
    "--metrics-bind-addr": ":9643",
    "--health-bind-addr": ":9644",
    "--zap-encoder": "console",
    "--zap-devel": "false",
}


def test_every_key_is_in_a_table_or_named_as_new():
    prober, weeder = section("Keys of the prober file"), section("Keys of the weeder file")
    assert {
        key for key in (*keys_of(ProberPolicy), *ProberPolicy.OBSOLETE) if f"`{key}" not in prober
    } == set()
    assert {key for key in keys_of(WeederPolicy) if f"`{key}`" not in weeder} == set()
    assert WeederPolicy().watch_duration == 300, "what Gardener sets is what it would be anyway"


@pytest.mark.parametrize("role", ["prober", "weeder"])
def test_the_monitor_of_the_page_finds_gardeners_pods_under_the_names_that_the_alerts_know(role):
    name = f"dependency-watchdog-{role}"
    (monitor,) = (each for each in OBJECTS if each.get("kind") == "PodMonitor")
    pod = gardener.deployment(name, "config")["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (chosen,) = monitor["spec"]["selector"]["matchExpressions"]
    assert chosen["operator"] == "In"
    assert labels[chosen["key"]] in chosen["values"]
    assert labels[monitor["spec"]["jobLabel"]] == name
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
    assert ports[endpoint["port"]] == 9643
    assert endpoint["honorLabels"] is True, "namespace is the shoot's"
    assert monitor["metadata"]["namespace"] == "garden"


def test_the_service_of_the_page_lets_the_seeds_prometheus_in_to_gardeners_pods():
    (service,) = (each for each in OBJECTS if each.get("kind") == "Service")
    pod = gardener.deployment("dependency-watchdog-prober", "config")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ours = yaml.safe_load((ROOT / "helm/dependency-watchdog/values-gardener.yaml").read_text())
    assert service["metadata"]["annotations"] == ours["metrics"]["service"]["annotations"]
    (monitor,) = (each for each in OBJECTS if each.get("kind") == "PodMonitor")
    assert monitor["metadata"]["labels"] == ours["metrics"]["serviceMonitor"]["labels"]
    assert monitor["metadata"]["labels"] == ours["alerts"]["labels"]


def test_the_alerts_are_quiet_about_just_what_gardeners_rights_lack():
    (found,) = re.findall(r"exceptResources='([^']*)'", PAGE.text)
    for role, rules in GARDENER.items():
        for each in needed(role):
            lacking = not allows(rules, each)
            assert bool(re.fullmatch(found, each.resource)) is lacking, each


@pytest.mark.skipif(not shutil.which("jq"), reason="the page is written for jq")
@pytest.mark.parametrize("role", ["prober", "weeder"])
def test_the_rehearsal_is_the_originals_deployment_with_a_name_of_its_own(role):
    rehearsal = rehearsed(role)
    name = f"dwd-rehearsal-{role}"
    pod = rehearsal["spec"]["template"]
    assert rehearsal["metadata"] == {
        "name": name,
        "namespace": "garden",
        "annotations": {"reference": "kept"},
    }
    assert rehearsal["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["labels"]["networking"] == "allowed", "or it would not reach anybody"
    assert pod["metadata"]["labels"]["app"] == name, "or it would be taken for one of the original"
    assert "status" not in rehearsal
    (container,) = pod["spec"]["containers"]
    command = commands.parse(container["command"][1:], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert not isinstance(command, commands.Help)
    assert command.settings.dry_run
    assert command.settings.auth_mode is AuthMode.NONE
    assert command.settings.exposure.address.loopback
    assert container["image"] == "registry.example.org/dependency-watchdog:0.1.0"


def rehearsed(role):
    """What the commands of the page make of Gardener's Deployment."""
    block = next(found.text for _, found in PAGE.blocks if "dwd-rehearsal-$role" in found.text)
    program = block.split('--arg name "dwd-rehearsal-$role" \'', 1)[1].split("' | kubectl", 1)[0]
    image = ("--arg", "image", "registry.example.org/dependency-watchdog:0.1.0")
    name = ("--arg", "name", f"dwd-rehearsal-{role}")
    return json.loads(printed("jq", *image, *name, program, input=json.dumps(deployment(role))))


def deployment(role):
    """As Gardener deploys it, and as an API server shows it."""
    found = gardener.deployment(f"dependency-watchdog-{role}", "config")
    annotations = {"reference": "kept", "deployment.kubernetes.io/revision": "3"}
    found["metadata"] |= {"uid": "1", "resourceVersion": "2", "annotations": annotations}
    template = found["spec"]["template"]
    template["metadata"] = {"labels": {**template["metadata"]["labels"], "networking": "allowed"}}
    return found | {"status": {"replicas": 2}}


# Rights: what Gardener grants, what the page adds, and what the program asks for.


def allows(rules, permission):
    return any(
        permission.verb in rule["verbs"]
        and permission.group in rule["apiGroups"]
        and permission.resource in rule["resources"]
        and (not rule.get("resourceNames") or permission.name in rule["resourceNames"])
        for rule in rules
    )


def needed(role):
    """All that the program asks for with Gardener's file and arguments."""
    own = process_permissions("garden", reviews=True)
    if role == "weeder":
        return (*weeder_permissions(lease=LEASES[role]), *own)
    policy = parse_prober(FILES["prober"], "file", strict=True).policy
    return (*permissions_needed(policy, {}, lease=LEASES[role]), *own)


ADDED = [
    rule
    for each in OBJECTS
    if each.get("kind") in {"Role", "ClusterRole"}
    for rule in each["rules"]
]


@pytest.mark.parametrize("role", ["prober", "weeder"])
def test_what_gardeners_rights_lack_switches_off_just_the_features_of_the_table(role):
    lacking = [each for each in needed(role) if not allows(GARDENER[role], each)]
    assert all(each.feature for each in lacking), "nothing that protects or weeds"
    told = names_in(first_cells(section("6. What Gardener's rights do not allow")))
    of_the_prober = set() if role == "prober" else {"scalerequests"}
    assert {each.feature for each in lacking} == told - NOT_THE_SEEDS - of_the_prober


@pytest.mark.parametrize("role", ["prober", "weeder"])
def test_the_roles_of_the_page_grant_what_is_missing(role):
    assert [each for each in needed(role) if not allows([*GARDENER[role], *ADDED], each)] == []


def test_the_roles_of_the_page_grant_nothing_else():
    lacking = {
        each for role in GARDENER for each in needed(role) if not allows(GARDENER[role], each)
    }
    granted = {
        (verb, group, resource, name)
        for rule in ADDED
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }
    assert granted == {(each.verb, each.group, each.resource, each.name) for each in lacking}


def test_both_accounts_are_bound_to_their_roles_and_the_prober_alone_may_scale():
    bindings = [each for each in OBJECTS if each.get("kind", "").endswith("Binding")]
    assert {each["roleRef"]["name"] for each in bindings} == {
        each["metadata"]["name"] for each in OBJECTS if each.get("kind") in {"Role", "ClusterRole"}
    }
    bound = {
        each["roleRef"]["name"]: [subject["name"] for subject in each["subjects"]]
        for each in bindings
    }
    prober, weeder = "dependency-watchdog-prober", "dependency-watchdog-weeder"
    assert bound == {
        "dependency-watchdog-more": [prober, weeder],
        "dependency-watchdog-scaling": [prober],
    }
