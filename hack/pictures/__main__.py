"""The screenshots in docs/pictures, of the demo's story after a minute and a half; `python -m hack.pictures`.

Needs Debian's package chromium. They take at most 300 kB together, or nothing is written.
"""

import base64
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.conftest import CHROMIUM, FLAGS

TO: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
MOST: Final = 300_000
PROTECTED: Final = "shoot--demo--a"
POD: Final = "dependency-watchdog-7c9f8-x2x4k"
"""Stands in the pictures for the name of the machine that they were taken on."""
DONE: Final = "details.action[open] form"


def main() -> None:
    """Starts the demo, waits for what is to be seen, and takes the pictures."""
    free = [f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics", "health")]
    words = [sys.executable, "-m", "app", "demo", *free]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as demo:  # noqa: S603 - ours
        said = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in demo.stdout or ())
        url = next(filter(None, said)).group()
        try:
            until_protected(url)
            with sync_playwright() as playwright:
                chromium = playwright.chromium
                browser = chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                found = taken(browser, url)
                browser.close()
        finally:
            demo.terminate()
    size = sum(map(len, found.values()))
    if size > MOST:
        sys.exit(f"{size} bytes are more than {MOST}")
    for name, picture in found.items():
        (TO / name).write_bytes(picture)
        sys.stdout.write(f"{name}: {len(picture)} bytes\n")


def until_protected(url: str) -> None:
    """Waits until the shoot has been protected for a while, so that its plot shows something."""
    while True:
        time.sleep(1)  # noqa: TID251 - the demo runs in real time
        try:
            with urllib.request.urlopen(f"{url}/api/v1/shoots/{PROTECTED}") as answer:  # noqa: S310 - ours
                if json.load(answer).get("state") == "Protected":
                    time.sleep(45)  # noqa: TID251 - as above
                    return
        except OSError:
            pass


def taken(browser: Browser, url: str) -> dict[str, bytes]:
    """The five pictures, by name."""
    shoot = f"/shoots/{PROTECTED}"
    found = {
        "page-shoots.webp": shot(browser, url + "/", (1200, 640), "light"),
        "page-shoots-dark.webp": shot(browser, url + "/", (1200, 480), "dark"),
        "page-shoot.webp": shot(browser, url + shoot, (1200, 900), "light"),
        "page-narrow.webp": shot(browser, url + "/", (360, 720), "light"),
    }

    def plan(page: Page) -> None:
        page.locator("details.action > summary", has_text="Scale down").click()
        page.locator(DONE).locator("[name=reason]").fill("the load balancer is replaced")
        page.locator(DONE).locator("button[type=submit]").click()
        page.locator(".outcome table").wait_for()

    found["page-plan.webp"] = shot(
        browser, f"{url}/shoots/shoot--demo--d", (1200, 720), "light", plan
    )
    return found


def shot(
    browser: Browser,
    url: str,
    size: tuple[int, int],
    scheme: Literal["light", "dark"] = "light",
    before: Callable[[Page], None] = lambda _: None,
) -> bytes:
    """A picture of this page, after `before`."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.locator("#live[data-tone=good]").wait_for()
    before(page)
    page.wait_for_timeout(300)
    for each in page.locator("#overview .facts b").all():
        each.evaluate("(each, name) => each.replaceChildren(name)", POD)
    how = {"format": "webp", "quality": 70}  # a fifth of what PNG takes
    said = context.new_cdp_session(page).send("Page.captureScreenshot", how)
    picture = base64.b64decode(said["data"])
    context.close()
    return picture


if __name__ == "__main__":
    main()
