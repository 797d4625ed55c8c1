"""What the page costs with many shoots: `python -m bench.page --shoots 1000`; needs Debian's package chromium.

The demo is what is looked at: the program in a process of its own, whose CPU is taken from /proc. In the midst of it a
tenth of the shoots lose their nodes. With `--pages 0` nobody looks: what is late then is not late because of the pages.
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
from statistics import median

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
SCENARIO = """
name: bench
about: a tenth of the shoots lose their nodes
scenes:
- {{after: {after}s, do: path-cut, shoots: {count}, for: 2m}}
- {{after: 60m, do: seed-slow, for: 1s}}
"""
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
UPDATE = """async ([namespace, path]) => {
  const row = () => document.getElementById(`shoot-${namespace}`);
  const body = JSON.stringify({reason: 'measured', scope: 'scaleDown', duration: '10m'});
  const began = performance.now();
  await fetch(path, {method: 'PUT', headers: {'Content-Type': 'application/json'}, body});
  while (!row().querySelector('.override')) await new Promise((r) => setTimeout(r, 5));
  document.body.offsetHeight;
  const took = performance.now() - began;
  await fetch(path, {method: 'DELETE'});
  while (row().querySelector('.override')) await new Promise((r) => setTimeout(r, 20));
  return took;
}"""
LONGEST = """() => new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest ?? 0, each.duration);
}).observe({type: 'longtask', buffered: true})"""


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - ours
        return str(answer.read().decode())


def lag(metrics: str, name: str) -> dict[float, float]:
    """The buckets of a histogram of seconds."""
    found = re.findall(name + r'_bucket\{le="([^"]+)"\} (\S+)', asked(metrics))
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
        now = re.findall(r'data-now="([^"]+)"', page)[0]
        newest = re.findall(r'data-newest="([^"]+)"', page)
        headers = {"Last-Event-ID": newest[0]} if newest else {}
        request = urllib.request.Request(f"{self.url}/api/v1/events", headers=headers)  # noqa: S310
        try:
            stream = urllib.request.urlopen(request, timeout=900)  # noqa: S310 - ours
        except urllib.error.HTTPError:
            return self.poll(now)
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

    def poll(self, now: str) -> None:
        """One caller has ten streams: all further pages ask for the rows that have changed."""
        while True:
            time.sleep(10)
            found = asked(f"{self.url}/rows?since={now}")
            now = re.findall(r'data-now="([^"]+)"', found)[0]


class Watched:
    """CPU of the program, and how late its probes and its event loop are, over a while."""

    LAGS = ("dwd_probe_lag_seconds", "dwd_event_loop_lag_seconds")

    def __init__(self, pid: int, metrics: str) -> None:
        self.pid, self.metrics = pid, metrics

    def over(self, what: str, seconds: float, wait: Callable[[float], None]) -> None:
        """Waits, by `wait` in ms, and prints both."""
        began, before = time.monotonic(), cpu(self.pid)
        lags = {each: lag(self.metrics, each) for each in self.LAGS}
        wait(seconds * 1000)
        share = (cpu(self.pid) - before) / (time.monotonic() - began)
        probes, loop = (p99(lags[each], lag(self.metrics, each)) for each in self.LAGS)
        print(
            f"{what}: {share:.1%} of a core, lag p99 of probes ≤ {probes} s, of the event loop ≤ {loop} s, "
            f"{memory(self.pid):.0f} MiB",
            flush=True,
        )


class Tab:
    """The memory of the page's tab, after a collection of garbage."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")

    def used(self) -> tuple[float, int]:
        """MiB of the JavaScript heap, and the number of nodes of the document."""
        self._session.send("HeapProfiler.collectGarbage")
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        found = {each["name"]: each["value"] for each in metrics}
        return found["JSHeapUsedSize"] / 2**20, int(found["Nodes"])


def told(times: list[float]) -> str:
    """Median and worst, in ms."""
    return f"{median(times):.0f} ms, at most {max(times):.0f} ms"


def measure(browser: Browser, url: str, watched: Watched, said: argparse.Namespace) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(600_000)
    opened = context.new_page()
    watched.over("no page", 20, opened.wait_for_timeout)
    paints, loads, usable = [], [], []
    for _ in range(6):
        began = time.monotonic()
        opened.goto(url, wait_until="commit")
        opened.locator("html.scripted").wait_for(state="attached")
        usable.append((time.monotonic() - began) * 1000)
        opened.wait_for_load_state("load")
        paints.append(opened.evaluate(PAINT))
        loads.append(opened.evaluate(LOADED))
    print(f"first paint: {told(paints)}; keys work: {told(usable)}; all rows: {told(loads)}")
    size = len(asked(url + "/")) / 1024
    print(f"rows {opened.locator('#shoots tbody tr').count()}, {size:.0f} KiB")
    print(f"a key of the search, to the layout: {told([opened.evaluate(KEY) for _ in range(7)])}")
    opened.locator("#live[data-tone=good]").wait_for()
    name = str(opened.locator("tr[data-state=Healthy]").last.get_attribute("data-name"))
    path = f"/api/v1/shoots/{name}/pause"
    updates = [opened.evaluate(UPDATE, [name, path]) for _ in range(7)]
    print(f"one update, from the request for a pause to its row: {told(updates)}")
    opened.evaluate(LONGEST)
    watched.over("one page", 20, opened.wait_for_timeout)
    print(f"longest task of the page {opened.evaluate('window.longest ?? 0'):.0f} ms")
    tab, began = Tab(opened), time.monotonic()
    before = tab.used()
    for _ in range(said.pages - 1):
        Reader(url).start()
        opened.wait_for_timeout(500)
    watched.over(f"{said.pages} pages", 30, opened.wait_for_timeout)
    opened.locator("tr[data-state=Protected]").first.wait_for()
    watched.over(f"{said.pages} pages, the outage", 60, opened.wait_for_timeout)
    print(f"longest task of the page {opened.evaluate('window.longest ?? 0'):.0f} ms")
    opened.wait_for_timeout(60_000 * said.minutes)
    after, hours = tab.used(), (time.monotonic() - began) / 3600
    print(
        f"heap {before[0]:.1f} MiB and {before[1]} nodes, after {hours * 60:.0f} minutes {after[0]:.1f} MiB and "
        f"{after[1]} nodes: {(after[0] - before[0]) / hours:+.1f} MiB an hour"
    )


def without_pages(url: str, watched: Watched) -> None:
    """The same while nobody looks, to know what of it the pages cost."""
    watched.over("no page", 20, lambda ms: time.sleep(ms / 1000))
    while not json.loads(asked(f"{url}/api/v1/status"))["counts"]["Protected"]:
        time.sleep(2)
    watched.over("no page, the outage", 60, lambda ms: time.sleep(ms / 1000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--minutes", type=int, default=5, help="of the tab's memory, at the end")
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
    watched = Watched(int(children[0]), f"{url}/metrics")
    if said.pages == 0:
        without_pages(url, watched)
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        measure(browser, url, watched, said)
        browser.close()


if __name__ == "__main__":
    main()
