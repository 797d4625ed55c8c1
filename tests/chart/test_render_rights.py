"""The rights that the chart grants are those that the program asks for, no more and no fewer, in every set."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.config.policy_files import parse_prober
from app.core.kube.resources import ApiResource
from app.core.kube.reviews import permissions_needed, process_permissions, weeder_permissions
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import Permission
from tests.chart import rendering
from tests.chart.customresources import GROUP
from tests.chart.rendering import NAMESPACE, Json, Renderer, Rendering
from tests.chart.valuesfiles import nested
from tests.e2e.apirights import documented_roles

pytestmark = pytest.mark.real

LEASES = {"prober": "dwd-prober-leader-election", "weeder": "dwd-weeder-leader-election"}
CALLER_ROLES = ("viewer", "operator", "admin")
READ = ("get", "list", "watch")
SETS = [each for each in rendering.values_sets() if each.stem != "given-values"]
"""But for the one whose rights somebody else grants."""
Right = tuple[str, str, str, str, str]
"""Verb, group, resource, name, namespace."""


PODS: Json = {"name": "x", "podSelector": {"matchLabels": {"app": "x"}}}
COMMAND: Json = {**PODS, "exec": {"command": ["/bin/true"]}}
HOST: Json = {"name": "x", "host": "x.org", "tcpSocket": {"port": 1}}
PROBES, ALLOWED = "prober.config.endpointProbes", {"prober.flags.allowExec": True}
MORE: dict[str, Json] = {
    "the defaults": {},
    "both loops in one process": {"mode": "serve"},
    "metrics behind a token, and no caller of the API reviewed": {
        "metrics.auth": True,
        "api.auth.mode": "none",
    },
    "probes of pods": {PROBES: [{**PODS, "tcpSocket": {"port": 1}}]},
    "probes of pods, and the flag for commands that none needs": {
        PROBES: [{**PODS, "tcpSocket": {"port": 1}}],
        **ALLOWED,
    },
    "probes of hosts, and the flag": {PROBES: [HOST], **ALLOWED},
    "probes by commands": {PROBES: [COMMAND], **ALLOWED},
}
"""Values beside the sets, for whose rights the program was asked."""


@pytest.mark.parametrize(
    ("files", "values"),
    [*(((path,), {}) for path in SETS), *(((), nested(values)) for values in MORE.values())],
    ids=[*(rendering.name_of(path) for path in SETS), *MORE],
)
def test_the_rights_are_those_that_the_program_needs(
    render: Renderer, files: tuple[Path, ...], values: Json
) -> None:
    rendered = render(*files, values=values)
    assert rendered.of("Deployment")
    for deployment in rendered.of("Deployment"):
        command = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        assert granted(rendered, account) == set(needed(rendered, command)), account


def test_no_rule_has_a_wildcard_or_all_secrets(render: Renderer) -> None:
    for values in SETS:
        for role in [*render(values).of("ClusterRole"), *render(values).of("Role")]:
            for rule in role["rules"]:
                words = [*rule["verbs"], *rule.get("apiGroups", ()), *rule.get("resources", ())]
                assert "*" not in words
                assert "secrets" not in words or rule["resourceNames"]
            assert role["rules"], "a role without rights"


@pytest.mark.parametrize("order", [1, -1])
def test_the_same_plural_is_scaled_by_its_scale_only_where_it_has_to_be(
    render: Renderer, order: int
) -> None:
    """A Deployment of another version than apps/v1 is one whose fields nobody knows."""
    refs = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "known"},
        {"apiVersion": "apps/v2", "kind": "Deployment", "name": "new", "resource": "deployments"},
    ]
    infos = [{"ref": ref, "scaleUp": {}, "scaleDown": {}} for ref in refs[::order]]
    rendered = render(values={"prober": {"config": {"dependentResourceInfos": infos}}})
    rights = granted(rendered, "dependency-watchdog-prober")
    by_scale = {right[3] for right in rights if right[2] == "deployments/scale"}
    assert by_scale == {"new"}
    assert {("patch", "apps", "deployments", name, "") for name in ("known", "new")} <= rights


def test_dependents_of_one_kind_share_a_rule(render: Renderer) -> None:
    (role,) = render().of("ClusterRole", "dependency-watchdog-prober")
    (rule,) = [rule for rule in role["rules"] if rule["apiGroups"] == ["apps"]]
    assert rule["resourceNames"] == [
        "cluster-autoscaler",
        "kube-controller-manager",
        "machine-controller-manager",
    ]


def test_the_roles_for_callers_are_those_of_the_documentation(render: Renderer) -> None:
    rendered = render(values={"metrics": {"auth": True}})
    documented = documented_roles()
    for name, role in documented.items():
        assert rendered.one("ClusterRole", name)["rules"] == role["rules"], name
    assert len(documented) == 4


def test_each_role_for_callers_may_what_the_one_before_may_and_more(render: Renderer) -> None:
    """To pause is the operator's, to scale the admin's; nobody writes a status."""
    rendered = render()
    roles = [rendered.one("ClusterRole", f"dependency-watchdog-{each}") for each in CALLER_ROLES]
    viewer, operator, admin = (
        {right[:3] for rule in role["rules"] for right in rights_of(rule, "")} for role in roles
    )
    assert viewer < operator < admin
    assert {verb for verb, *_ in viewer} == {*READ}
    pausing = {(verb, GROUP, "pauses") for verb in ("create", "update", "patch", "delete")}
    scaling = {(verb, GROUP, "scalerequests") for verb in ("create", "delete")}
    assert pausing <= operator
    assert scaling | {("update", GROUP, "scalerequests/force")} <= admin - operator
    assert not {right for right in admin if right[2].endswith("/status")}
    assert not [role for role in roles if "aggregationRule" in role]
    assert not [
        label for role in roles for label in role["metadata"]["labels"] if "aggregate" in label
    ]


CALLERS = rendering.CHART / "ci/callers-values.yaml"


def test_the_accounts_for_callers_have_the_rights_of_their_role_and_nothing_else(
    render: Renderer,
) -> None:
    rendered = render(CALLERS)
    for role in CALLER_ROLES:
        account = rendered.one("ServiceAccount", f"dwd-{role}")
        assert account["automountServiceAccountToken"] is False
        named = {(right[1], right[4]) for right in granted(rendered, f"dwd-{role}")}
        assert named == {(GROUP, "")}
        rules = rendered.one("ClusterRole", f"dwd-{role}")["rules"]
        assert granted(rendered, f"dwd-{role}") == {
            right for rule in rules for right in rights_of(rule, "")
        }


def granted(rendered: Rendering, account: str) -> set[Right]:
    """What bindings give to a ServiceAccount."""
    found: set[Right] = set()
    for kind in ("ClusterRole", "Role"):
        for binding in rendered.of(f"{kind}Binding"):
            if account in {each["name"] for each in binding["subjects"]}:
                role = rendered.one(kind, binding["roleRef"]["name"])
                inside = binding["metadata"].get("namespace", "")
                found |= {right for rule in role["rules"] for right in rights_of(rule, inside)}
    return found


def rights_of(rule: Json, namespace: str) -> Iterator[Right]:
    for verb in rule["verbs"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    yield (verb, group, resource, name, namespace)


def needed(rendered: Rendering, command: list[str]) -> Iterator[Right]:
    """What the program asks for that is started like this."""
    loops = ["prober", "weeder"] if command[1] == "serve" else [command[1]]
    dry_run, election = "--dry-run" in command, "--enable-leader-election=true" in command
    for loop in loops:
        lease = (NAMESPACE, LEASES[loop]) if election else None
        if loop == "prober":
            allowed = "--allow-exec" in command
            policy, resources = configured(rendered, allow_exec=allowed)
            asked = permissions_needed(
                policy, resources, lease=lease, dry_run=dry_run, allow_exec=allowed
            )
            yield from rights(asked)
        else:
            yield from rights(weeder_permissions(lease=lease, dry_run=dry_run))
    slices = [word.partition("=")[2] for word in command if "--leader-endpointslice" in word]
    reviews = "--metrics-auth" in command or not any("--auth-mode" in word for word in command)
    own = process_permissions(
        NAMESPACE, reviews=reviews, leader_slice=slices[0] if slices else None, dry_run=dry_run
    )
    yield from rights(own)


def rights(permissions: Iterable[Permission]) -> Iterator[Right]:
    for each in permissions:
        yield (each.verb, each.group, each.resource, each.name, each.namespace)


def configured(
    rendered: Rendering, *, allow_exec: bool
) -> tuple[ProberPolicy, dict[ResourceRef, ApiResource]]:
    """The policy of the prober file, and how the API server of the test would serve its kinds."""
    (found,) = [each for each in rendered.of("ConfigMap") if "-prober-config-" in _name(each)]
    text = found["data"]["dep-config.yaml"]
    policy = parse_prober(text, _name(found), strict=True, allow_exec=allow_exec).policy
    plurals = {"Scaler": "scalers", "ReplicationController": "replicationcontrollers"}
    served = {}
    for each in policy.dependents:
        if each.ref.kind in plurals:
            group, _, version = each.ref.api_version.rpartition("/")
            served[each.ref] = ApiResource(group, version, each.ref.kind, plurals[each.ref.kind])
    return policy, served


def _name(found: Json) -> Any:
    return found["metadata"]["name"]
