"""docs/security.md has the rights that the program asks for; each control of docs/threats.md names its tests."""

import itertools

import pytest

from app.core.config.policy_files import parse_prober
from app.core.kube.client import ResponseLimits
from app.core.kube.connections import MAX_TOTAL, MIB
from app.core.kube.reviews import permissions_needed, process_permissions, weeder_permissions
from app.realcluster import LEASES
from tests.docs.pages import DOCS, ROOT, Page

PAGE = Page(DOCS / "security.md")
THREATS = Page(DOCS / "threats.md")
POLICY = parse_prober(
    """
kubeConfigSecretName: a-secret
endpointProbes:
- {name: a-probe, podSelector: {matchLabels: {a: b}}, exec: {command: [x]}}
dependentResourceInfos:
- {ref: {apiVersion: apps/v1, kind: Deployment, name: a-deployment}, scaleUp: {}, scaleDown: {}}
- {ref: {apiVersion: example.org/v1, kind: Scaler, name: a-scaler}, scaleUp: {}, scaleDown: {}}
""",
    "file",
    strict=True,
    allow_exec=True,
).policy
MEANT = {
    "each dependent, such as `deployments.apps`": ["deployments.apps", "scalers.example.org"],
    "its `scale`, of what is no Deployment, StatefulSet or ReplicaSet": [
        "scalers/scale.example.org"
    ],
    "any": [""],
    "`kubeConfigSecretName`": ["a-secret"],
    "its name": ["a-deployment", "a-scaler"],
    "`--leader-endpointslice`": ["a-slice"],
}
"""What the page says in words, as it is in the configuration of this test."""


def section(heading):
    return PAGE.text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(text):
    """The cells of the table of a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def asked_for():
    """All that both loops ask for, in everything that they can be told to do."""
    for loop, name in LEASES.items():
        lease = ("own", name)
        mine = (
            permissions_needed(POLICY, {}, lease=lease, allow_exec=True)
            if loop == "prober"
            else weeder_permissions(lease=lease)
        )
        others = process_permissions("own", reviews=True, leader_slice="a-slice")
        for each in (*mine, *others):
            resource = f"{each.resource}.{each.group}" if each.group else each.resource
            yield (str(loop), each.namespace == "own", resource, each.name, each.verb)


def granted():
    for loop, where, resource, name, verbs, _ in rows(section("Rights")):
        loops = ["prober", "weeder"] if loop == "both" else [loop]
        resources = MEANT.get(resource, [resource.strip("`")])
        names = MEANT.get(name) or [each.strip("`") for each in name.split(" or ")]
        for one, what, who, verb in itertools.product(loops, resources, names, verbs.split(", ")):
            yield (one, where == "own namespace", what, who, verb)


def fits(right):
    """Whether a row that stands for several objects means this one."""
    loop, _, resource, name, _ = right
    kinds = {"a-deployment": "deployments", "a-scaler": "scalers"}
    lease = name not in LEASES.values() or name == LEASES[loop]
    return lease and resource.startswith(kinds.get(name, ""))


def test_the_rights_are_those_that_the_program_asks_for():
    assert {each for each in granted() if fits(each)} == set(asked_for())


def test_the_rights_are_asked_for_by_name_where_kubernetes_can():
    unnamed = {(resource, verb) for _, own, resource, name, verb in asked_for() if own and not name}
    assert unnamed == {("leases.coordination.k8s.io", "create")}


def test_an_answer_and_all_answers_together_may_take_what_the_page_says():
    """Threat T7."""
    said = f"{ResponseLimits().body // MIB} MiB an answer, {MAX_TOTAL // MIB} MiB of all answers"
    assert [row for row in rows(section("What a shoot may take")) if row[0].startswith(said)]


@pytest.mark.parametrize("row", rows(THREATS.text), ids=lambda row: row[0].rpartition(">")[2])
def test_every_control_names_its_tests(row):
    tested_in = row[3]
    named = list(tested_in.split("`")[1::2])
    assert named or tested_in == "the same"
    assert all((ROOT / each).exists() for each in named)
