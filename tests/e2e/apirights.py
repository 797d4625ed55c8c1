"""Rights around the REST API: the watchdog's, to the letter of threat T16, and the documented ones of its callers."""

from pathlib import Path
from typing import Any

import yaml

from tests.e2e import objects
from tests.e2e.landscape import RBAC
from tests.e2e.objects import CA, KCM, LEASE, MCM, SECRET, Json, rule
from tests.e2e.stage import Stage

_DOCUMENT = Path(__file__).parents[2] / "docs/authentication.md"
_READ = "get list watch"


def seed_rules() -> list[Json]:
    """The ClusterRole of the prober, with Gardener's three dependents."""
    return [
        rule("extensions.gardener.cloud", ["clusters"], _READ),
        rule("machine.sapcloud.io", ["machines"], _READ),
        rule("", ["secrets"], _READ, [SECRET]),
        rule("apps", ["deployments"], f"{_READ} patch", [KCM, MCM, CA]),
        rule("events.k8s.io", ["events"], "create patch"),
        rule("authentication.k8s.io", ["tokenreviews"], "create"),
        rule("authorization.k8s.io", ["subjectaccessreviews"], "create"),
        *objects.people_rules(),
    ]


def own_rules() -> list[Json]:
    """The Role in the watchdog's own namespace."""
    return [
        rule("coordination.k8s.io", ["leases"], "create"),
        rule("coordination.k8s.io", ["leases"], "get watch update", [LEASE]),
    ]


async def furnish(stage: Stage) -> None:
    """The programs of the stage get these rights and no others."""
    name = f"exactly-{stage.garden}"
    await stage.seed.api.create(
        f"{RBAC}/clusterroles", objects.role("ClusterRole", name, seed_rules())
    )
    await stage.furnish(name, own_rules())


def documented_roles() -> dict[str, Json]:
    """The ClusterRoles for callers that the documentation gives, by name."""
    blocks = _DOCUMENT.read_text().split("```yaml\n")[1:]
    parts: list[Any] = [
        part for block in blocks for part in yaml.safe_load_all(block.split("```")[0])
    ]
    roles = [each for each in parts if isinstance(each, dict) and each.get("kind") == "ClusterRole"]
    return {each["metadata"]["name"]: each for each in roles}
