"""Draws the pictures of docs/dashboards.md: `python -m hack.dashboards.pictures`.

It plays what the tests play, asks Prometheus what the panels ask, and lets a headless Chromium take pictures of a plain
page. Needs `prometheus` and `chromium`; takes a minute and a half.
"""

import asyncio
import base64
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from hack.dashboards.drawing import Answers, Shown, height, page
from tests.chart.dashboards.asking import answer
from tests.chart.dashboards.reading import ROOT, SEED, SHOOT, dashboard, queries
from tests.chart.dashboards.recording import RECOVERS, Recording, recorded

PICTURES: Final = {
    "dashboard-seed-1": (SEED, ("Is it well, is anything protected?", "Shoots", "Probes")),
    "dashboard-seed-2": (SEED, ("Scaling", "Weeder", "People")),
    "dashboard-seed-3": (SEED, ("Requests to API servers",)),
    "dashboard-seed-4": (SEED, ("The processes",)),
    "dashboard-shoot": (
        SHOOT,
        ("Now", "Over time", "What was seen, and done", "People, and where to go on"),
    ),
}
_WIDE: Final = 1404
_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars")
_NOTE: Final = (
    "drawn from the answers of a real Prometheus to its queries; a minute of a simulated seed"
)


async def _answers(recording: Recording, name: str) -> Answers:
    return {
        (asked.panel, asked.letter): await answer(recording, asked, shoot=RECOVERS)
        for asked in queries()
        if asked.dashboard == name
    }


async def _pages(folder: Path, prometheus: Path) -> None:
    async with recorded(prometheus, folder) as recording:
        found = {name: await _answers(recording, name) for name in (SEED, SHOOT)}
        when = Shown(recording.begun, recording.ended)
    for picture, (name, rows) in PICTURES.items():
        drawn = page(dashboard(name), rows, found[name], when, _NOTE)
        (folder / f"{picture}.html").write_text(drawn)


def _photographed(folder: Path, chromium: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        for picture, (name, rows) in PICTURES.items():
            high = height(dashboard(name), rows)
            shown = browser.new_page(viewport={"width": _WIDE, "height": high})
            shown.goto((folder / f"{picture}.html").as_uri())
            how = {"format": "webp", "quality": 60}  # a fifth of what PNG takes
            said = shown.context.new_cdp_session(shown).send("Page.captureScreenshot", how)
            (ROOT / f"docs/pictures/{picture}.webp").write_bytes(base64.b64decode(said["data"]))
            shown.close()
        browser.close()


def main() -> None:
    """Records, draws, and takes the pictures."""
    found = {name: shutil.which(name) for name in ("prometheus", "chromium")}
    if not all(found.values()):
        sys.exit(f"needed: {', '.join(name for name, path in found.items() if path is None)}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        asyncio.run(_pages(folder, Path(str(found["prometheus"]))))
        _photographed(folder, str(found["chromium"]))


if __name__ == "__main__":
    main()
