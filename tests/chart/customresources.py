"""The definitions of the chart's own kinds, Pause and ScaleRequest."""

from pathlib import Path
from typing import Final

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
