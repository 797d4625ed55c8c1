"""What the page costs with many shoots: `python -m bench.page --shoots 1000`; needs Debian's package chromium.

The demo is what is looked at: the program in a process of its own, whose CPU is taken from /proc.  In the midst of it a
tenth of the shoots lose their nodes.
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
SCENARIO = """
name: bench
about: a tenth of the shoots lose their nodes
scenes:
- {{after: {after}s, do: path-cut, shoots: {count}, for: 2m}}
- {{after: 60m, do: seed-slow, for: 1s}}
"""
HEAP = "performance.memory.usedJSHeapSize / 2**20"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
KEY = """async () => {
  const search = document.querySelector('#search input[type=search]');
  const began = performance.now();
  search.value = 'demo--s1'; search.dispatchEvent(new Event('input', {bubbles: true}));
  document.body.offsetHeight;
  const took = performance.now() - began;
  search.value = ''; search.dispatchEvent(new Event('input', {bubbles: true}));
  return took;
}"""
LONGEST = """() => new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest ?? 0, each.duration);
}).observe({type: 'longtask', buffered: true})"""


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - ours
        return str(answer.read().decode())


def lag(metrics: str) -> dict[float, float]:
    """The buckets of the lag of probes."""
    found = re.findall(r'dwd_probe_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', asked(metrics))
    return {float(bound): float(count) for bound, count in found}


def p99(before: dict[float, float], after: dict[float, float]) -> float:
    """The bucket that has the 99th percentile of what came between."""
    new = {bound: after[bound] - before.get(bound, 0.0) for bound in after}
    return min(bound for bound, count in new.items() if count >= 0.99 * new[float("inf")])


def cpu(pid: int) -> float:
    """Seconds of CPU until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


class Reader(threading.Thread):
    """A page without a browser: what page.js asks for, a quarter of an hour at most."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.told = url, 0

    def run(self) -> None:
        """Reads until the server is gone."""
        with contextlib.suppress(OSError):
            self.follow()

    def follow(self) -> None:
        """Reads the page, then the stream; asks for the rows that changed, once a second at most."""
        page = asked(self.url + "/")
        newest = re.findall(r'data-newest="([^"]+)"', page)
        headers = {"Last-Event-ID": newest[0]} if newest else {}
        request = urllib.request.Request(f"{self.url}/api/v1/events", headers=headers)  # noqa: S310
        try:
            stream = urllib.request.urlopen(request, timeout=900)  # noqa: S310 - ours
        except urllib.error.HTTPError:
            return self.poll()
        last, rows = time.monotonic(), set()
        for line in stream:
            if line.startswith(b"data: ") and b'"namespace":"' in line:
                rows.add(re.findall(rb'"namespace":"([^"]+)"', line)[0].decode())
                self.told += 1
            if rows and time.monotonic() - last > 1:
                query = urllib.parse.urlencode([("namespace", each) for each in list(rows)[:100]])
                asked(f"{self.url}/rows?{query}")
                last, rows = time.monotonic(), set()
        return None

    def poll(self) -> None:
        """One caller has ten streams: all further pages are asked for again."""
        while True:
            time.sleep(30)
            asked(self.url + "/")


class Watched:
    """CPU of the program and the lag of its probes over a while."""

    def __init__(self, pid: int, metrics: str) -> None:
        self.pid, self.metrics = pid, metrics

    def over(self, what: str, seconds: float, wait: Callable[[float], None]) -> None:
        """Waits, by `wait` in ms, and prints both."""
        began, before, lags = time.monotonic(), cpu(self.pid), lag(self.metrics)
        wait(seconds * 1000)
        share = (cpu(self.pid) - before) / (time.monotonic() - began)
        late = p99(lags, lag(self.metrics))
        print(f"{what}: {share:.1%} of a core, lag p99 ≤ {late} s, {memory(self.pid):.0f} MiB")


def measure(browser: Browser, url: str, watched: Watched, pages: int) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    opened = context.new_page()
    watched.over("no page", 20, opened.wait_for_timeout)
    began = time.monotonic()
    opened.goto(url)
    opened.locator("html.scripted").wait_for()
    print(f"first page: usable after {time.monotonic() - began:.2f} s")
    print(f"  paint {opened.evaluate(PAINT):.0f} ms, loaded {opened.evaluate(LOADED):.0f} ms")
    times = []
    for _ in range(5):
        opened.reload()
        opened.locator("html.scripted").wait_for()
        times.append((opened.evaluate(PAINT), opened.evaluate(LOADED)))
    print(f"again, five times: paint and loaded {[(round(a), round(b)) for a, b in times]} ms")
    size = len(asked(url + "/")) / 1024
    print(f"rows {opened.locator('#shoots tbody tr').count()}, {size:.0f} KiB")
    keys = [opened.evaluate(KEY) for _ in range(5)]
    print(f"a key of the search, to the layout: {[round(each) for each in keys]} ms")
    opened.evaluate(LONGEST)
    watched.over("one page", 20, opened.wait_for_timeout)
    print(f"longest task of the page {opened.evaluate('window.longest ?? 0'):.0f} ms")
    print(f"JS heap {opened.evaluate(HEAP):.0f} MiB")
    for _ in range(pages - 1):
        Reader(url).start()
        opened.wait_for_timeout(500)
    watched.over(f"{pages} pages", 30, opened.wait_for_timeout)
    opened.locator("tr[data-state=Protected]").first.wait_for(timeout=600_000)
    watched.over(f"{pages} pages, a tenth protected", 30, opened.wait_for_timeout)
    print(f"longest task of the page {opened.evaluate('window.longest ?? 0'):.0f} ms")
    print(f"JS heap {opened.evaluate(HEAP):.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--after", type=int, default=240, help="seconds until the outage")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "bench.yaml"
        scenario.write_text(SCENARIO.format(after=said.after, count=max(1, said.shoots // 10)))
        free = [f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics", "health")]
        words = [f"--scenario={scenario}", f"--shoots={said.shoots}", "--nodes=2", *free]
        command = [sys.executable, "-m", "app", "demo", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:  # noqa: S603 - ours
            assert demo.stdout is not None  # noqa: S101 - it is a pipe
            lines = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in demo.stdout)
            url = next(filter(None, lines)).group()
            try:
                run(demo.pid, url, said)
            finally:
                demo.terminate()


def run(demo: int, url: str, said: argparse.Namespace) -> None:
    children = Path(f"/proc/{demo}/task/{demo}/children").read_text().split()
    while True:
        time.sleep(2)
        try:
            if json.loads(asked(f"{url}/api/v1/status"))["counts"]["Healthy"] == said.shoots:
                break
        except (OSError, TypeError):
            pass
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*FLAGS, "--enable-precise-memory-info"]
        )
        measure(browser, url, Watched(int(children[0]), f"{url}/metrics"), said.pages)
        browser.close()


if __name__ == "__main__":
    main()
