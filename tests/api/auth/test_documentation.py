"""docs/authentication.md: its roles grant what the table says, and its examples are what the program takes."""

import re
from pathlib import Path

import pytest
import yaml

from app.api.auth.authentication import OPEN, SCRAPE, nobody
from app.api.auth.authorization import AccessDecision, Call
from app.api.problems import ProblemType
from app.core.config.token_file import parse_tokens
from app.core.config.values import AuthMode
from app.core.model.callers import AUDIENCE, GROUP, Role

DOCUMENT = (Path(__file__).parents[3] / "docs/authentication.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
ROLES = {
    each["metadata"]["name"]: each["rules"]
    for block in BLOCKS
    for each in yaml.safe_load_all(block)
    if isinstance(each, dict) and "rules" in each
}


def grants(rules):
    assert all(rule["apiGroups"] == [GROUP] for rule in rules)
    return {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("role", Role)
def test_each_cluster_role_grants_what_the_role_may_and_nothing_more(role):
    ranks = list(Role)
    expected = {
        (call.verb, call.resource) for call in Call if ranks.index(call.role) <= ranks.index(role)
    }
    assert grants(ROLES[f"dependency-watchdog-{role}"]) == expected | kubectl(role)


def kubectl(role):
    """What the role grants beyond the API, so that it is one for kubectl, too."""
    watched = {(v, kind) for v in ("get", "list", "watch") for kind in ("pauses", "scalerequests")}
    return watched if role is Role.VIEWER else watched | {("patch", "pauses")}


def test_a_scraper_is_granted_what_is_asked_for():
    assert ROLES["dependency-watchdog-metrics"] == [
        {"nonResourceURLs": [SCRAPE.path], "verbs": [SCRAPE.verb]}
    ]


def test_the_token_file_of_the_page_is_one():
    (text,) = (block for block in BLOCKS if "sha256" in block)
    found = parse_tokens(Path("tokens.yaml"), text.encode())
    assert [(each.name, each.role) for each in found.known] == [
        ("alice", Role.OPERATOR),
        ("dashboard", Role.VIEWER),
    ]


def rows(heading):
    section = DOCUMENT.split(heading, 1)[1]
    table = section.split("|---", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]


def test_the_modes_and_what_is_open_are_as_they_are():
    assert [row[0] for row in rows("# Who may call")] == [str(each) for each in AuthMode]
    assert all(f"`{path}`" in DOCUMENT for path in OPEN)
    assert f"--audience={AUDIENCE}" in DOCUMENT


def test_the_refusals_are_problems_with_these_types():
    types = {each.urn.rpartition(":")[2]: each.status for each in ProblemType}
    found = rows("## What is said to those who are refused")
    assert all(types[slug] == int(status) for status, slug, _ in found)
    assert nobody("", "").headers["WWW-Authenticate"].startswith("Bearer")


def test_each_decision_is_named():
    last = DOCUMENT.rpartition("by `decision`: ")[2]
    assert re.findall(r"`(\w+)`", last) == [str(each) for each in AccessDecision]
