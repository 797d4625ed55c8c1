"""Writes the dashboards of the chart: `python -m hack.dashboards`; a test says whether that was done."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hack.dashboards.seed import seed_overview
from hack.dashboards.shoot import one_shoot

FOLDER: Final = Path(__file__).parents[2] / "helm/dependency-watchdog/dashboards"


def files() -> Mapping[Path, str]:
    """Each file, and what belongs into it."""
    made = {"seed-overview.json": seed_overview(), "shoot.json": one_shoot()}
    return {FOLDER / name: dashboard.text() for name, dashboard in made.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
