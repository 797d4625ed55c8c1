"""What the ConfigMap of the overrides says."""

import json

from app.core.model.overrides import OVERRIDES
from tests.e2e.objects import Json
from tests.e2e.stage import Stage


async def entry(stage: Stage, kind: str) -> Json:
    """What it says of the stage's shoot; empty where there is nothing that can be read."""
    path = f"/api/v1/namespaces/{stage.garden}/configmaps/{OVERRIDES}"
    found = await stage.seed.api.find(path) or {}
    try:
        parts = json.loads((found.get("data") or {}).get(stage.shoot.namespace, "{}"))
    except ValueError:
        return {}
    shown: Json = parts.get(kind) or {}
    return shown
