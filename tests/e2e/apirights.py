"""The rights of callers of the REST API, as they are documented."""

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.objects import Json

_DOCUMENT = Path(__file__).parents[2] / "docs/authentication.md"


def documented_roles() -> dict[str, Json]:
    """The ClusterRoles for callers that the documentation gives, by name."""
    blocks = _DOCUMENT.read_text().split("```yaml\n")[1:]
    parts: list[Any] = [
        part for block in blocks for part in yaml.safe_load_all(block.split("```")[0])
    ]
    roles = [each for each in parts if isinstance(each, dict) and each.get("kind") == "ClusterRole"]
    return {each["metadata"]["name"]: each for each in roles}
