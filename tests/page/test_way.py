"""`dwd page` with a real Chromium: the browser that it opened sees the page live, acts, and is the only one."""

import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.conftest import Api, Tabs
from tests.page.test_demo import QUIET, SHOOT, act

BROKEN = "Failed to load resource|ERR_"


class Proxy:
    """A running `dwd page`."""

    def __init__(self, server: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "app",
                "page",
                f"--server={server}",
                "-o",
                "json",
                "--no-browser",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        said = itertools.islice(iter(self.process.stdout.readline, ""), 3)
        self.url: str = json.loads("".join(said))["url"]
        self.origin = self.url.partition("/enter/")[0]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def proxy(demo: Api) -> Iterator[Proxy]:
    found = Proxy(demo.url)
    yield found
    if found.process.poll() is None:
        found.end()


def live(page: Any) -> None:
    page.locator("#live", has_text=re.compile("live")).wait_for()


def test_the_browser_that_was_opened_sees_the_page_live_and_acts(
    demo: Api, proxy: Proxy, tabs: Tabs
) -> None:
    page = tabs.open(proxy.url)
    assert page.url == f"{proxy.origin}/"
    live(page)
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.goto(f"{proxy.origin}/shoots/{QUIET}")
    act(page, "Pause", reason="by the proxy")
    demo.until(SHOOT, lambda found: found["pause"] is not None)
    assert demo.get(SHOOT)["pause"]["reason"] == "by the proxy"
    # Live: what another client does is seen without a reload.
    page.goto(f"{proxy.origin}/")
    live(page)
    row = page.locator("tr", has_text=QUIET)
    row.get_by_text("by the proxy").first.wait_for()
    subprocess.run(
        [sys.executable, "-m", "app", "resume", QUIET, f"--server={demo.url}"], check=True
    )
    row.get_by_text("by the proxy").first.wait_for(state="detached")
    assert proxy.end() == 130
    tabs.expected.append(BROKEN)


def test_another_browser_and_another_site_get_nothing(proxy: Proxy, tabs: Tabs) -> None:
    tabs.expected += [BROKEN, "Cross-Origin|CORS|blocked"]
    mine = tabs.open(proxy.url)
    live(mine)
    other = tabs.open(proxy.url)
    assert "This address has already been used" in other.inner_text("body")
    other.goto(f"{proxy.origin}/")
    assert "Only the browser that dwd page has opened" in other.inner_text("body")
    # Another site in the browser that has the cookie: by another name, its links, frames, forms and scripts.
    site = mine.context.new_page()
    site.route(
        "http://evil.example/*",
        lambda route: route.fulfill(content_type="text/html", body="<p>evil"),
    )
    site.goto("http://evil.example/")
    got = site.evaluate(
        """async (url) => {
          const found = [];
          for (const how of [{mode: "no-cors", credentials: "include"}, {credentials: "include"},
                             {method: "POST", mode: "no-cors", credentials: "include", body: "{}"}]) {
            try { found.push((await fetch(url, how)).type); } catch (error) { found.push(error.name); }
          }
          return found;
        }""",
        f"{proxy.origin}/api/v1/shoots",
    )
    assert set(got) <= {"opaque", "TypeError"}
    with mine.context.expect_page():
        site.evaluate("url => window.open(url)", f"{proxy.origin}/")
    opened = mine.context.pages[-1]
    opened.wait_for_load_state()
    assert "Access denied" in opened.inner_text("body")
    live(mine)
