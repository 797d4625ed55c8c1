"""The chart's own kinds, Pause and ScaleRequest: their definitions, and objects of them."""

from pathlib import Path
from typing import Any, Final

import yaml

from tests.chart.rendering import CHART, Json

GROUP: Final = "dependency-watchdog.gardener.cloud"
FOLDER: Final = CHART / "files/crds"
FILES: Final = tuple(sorted(FOLDER.glob("*.yaml")))
NAMES: Final = {f"{path.stem}.{GROUP}" for path in FILES}
"""Of the definitions."""


def definition(path: Path) -> Json:
    """What one of the files defines."""
    found: Json = yaml.safe_load(path.read_text())
    return found


def pause(name: str = "x", **spec: Any) -> Json:
    """A Pause with a reason, or with what `spec` says; None takes a field away."""
    return _object("Pause", name, {"reason": "a test", **spec})


def scale_request(name: str = "x", **spec: Any) -> Json:
    """A ScaleRequest for down, or with what `spec` says; None takes a field away."""
    return _object("ScaleRequest", name, {"direction": "Down", "reason": "a test", **spec})


def _object(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
