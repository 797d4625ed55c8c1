"""`dwd page` with a real Chromium: the browser that it opened sees the page live, acts, and is the only one."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.conftest import Api, Tabs
from tests.page.test_demo import QUIET, SHOOT, act
from tests.support.wire import Wire

BROKEN = "Failed to load resource|ERR_"


class Proxy:
    """A running `dwd page`."""

    def __init__(self, server: str, *flags: str, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "page", f"--server={server}", "-o", "json", *flags],
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.url: str = json.loads(self.process.stdout.readline() + self._rest(2))["url"]
        self.origin = self.url.partition("/enter/")[0]
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _rest(self, lines: int) -> str:
        assert self.process.stdout is not None
        return "".join(self.process.stdout.readline() for _ in range(lines))

    def _read(self) -> None:
        assert self.process.stderr is not None
        self._said.extend(iter(self.process.stderr.readline, ""))

    @property
    def said(self) -> str:
        return "".join(self._said)

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(10)
        self._reader.join(5)
        for each in (self.process.stdout, self.process.stderr):
            assert each is not None
            each.close()
        return code


@pytest.fixture
def proxy(wire: Wire) -> Iterator[Proxy]:
    found = Proxy(wire.url, "--no-browser")
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


def test_the_page_says_that_the_way_is_broken_and_is_live_again_by_itself(
    wire: Wire, proxy: Proxy, tabs: Tabs
) -> None:
    tabs.expected.append(BROKEN)
    page = tabs.open(proxy.url)
    live(page)
    wire.cut()
    page.locator("#live", has_text=re.compile("disconnected")).wait_for()
    until(lambda: "connection lost at" in proxy.said)
    page.goto(f"{proxy.origin}/")
    assert "The watchdog is unreachable" in page.inner_text("body")
    wire.mend()
    until(lambda: "connection restored at" in proxy.said)
    page.locator("h1", has_text="The watchdog is unreachable").wait_for(
        state="detached", timeout=20_000
    )
    live(page)


def until(done: Any, within: float = 30.0) -> None:
    end = time.monotonic() + within
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)
