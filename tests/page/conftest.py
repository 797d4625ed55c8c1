"""A real Chromium, the demo for it to look at, and an application on hand-made facts for what no demo shows.

Whatever a page writes to the console as an error, a broken policy included, fails the test.
"""

import base64
import contextlib
import json
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.fakes import application
from tests.api.serving import served
from tests.page.facts import facts
from tests.support.wire import Wire

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
HERE = Path(__file__).parent
SCENARIO = """
name: page
about: what the tests of the page look at
shoots:
- {name: cut, nodes: 6}
- {name: quiet, nodes: 4}
scenes:
- {after: 40s, do: path-cut, shoots: cut, for: 50s}
- {after: 20m, do: seed-slow, for: 1s}
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where there is no Chromium these tests are left out, and say so."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.blocking)
            item.add_marker(pytest.mark.timeout(240))
            if CHROMIUM is None:
                reason = "needs Chromium (Debian's package chromium)"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The application on hand-made facts."""
    with served(application(facts())) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Ends with its module: while it is there the thread has a running event loop, which no other test could bear."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is a Chromium

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Tabs:
    """Opens pages; what they write to the console as an error is collected."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.errors: list[str] = []
        self.expected: list[str] = []
        """Patterns of errors that the test is about."""

    def open(self, url: str, **how: Any) -> Any:
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._heard)
        page.goto(url)
        return page

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def close(self) -> None:
        for each in self._contexts:
            each.close()
        unexpected = [
            each
            for each in self.errors
            if not any(re.search(known, each) for known in self.expected)
        ]
        assert unexpected == []


@pytest.fixture
def tabs(browser: Any) -> Iterator[Tabs]:
    found = Tabs(browser)
    yield found
    found.close()


class Api:
    """Asks an API, as curl would."""

    def __init__(self, url: str, kubeconfig: Path | None = None) -> None:
        self.url, self.kubeconfig = url, kubeconfig

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:  # noqa: S310 - ours
            said = answer.read()
        return json.loads(said) if said[:1] == b"{" else said.decode()

    def until(self, path: str, done: Any, within: float = 60.0) -> Any:
        """Asks again until `done` of the answer holds."""
        end = time.monotonic() + within
        found: Any = None
        while time.monotonic() < end:
            with contextlib.suppress(OSError):  # it has only just started
                if done(found := self.get(path)):
                    return found
            time.sleep(0.2)
        raise AssertionError(found)


class Seed:
    """Asks the demo's simulated seed for its objects, as kubectl would: what an action has really done."""

    def __init__(self, kubeconfig: Path) -> None:
        found = json.loads(kubeconfig.read_text())
        cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
        self._url, self._token = cluster["server"], user["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def get(self, path: str) -> Any:
        request = urllib.request.Request(  # noqa: S310 - ours
            self._url + path, headers={"Authorization": f"Bearer {self._token}"}
        )
        with urllib.request.urlopen(request, timeout=10, context=self._tls) as answer:  # noqa: S310
            return json.load(answer)

    def replicas(self, namespace: str) -> dict[str, int]:
        """The replicas of the Deployments of a control plane."""
        found = self.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    def annotations(self, namespace: str, name: str) -> dict[str, str]:
        """The annotations of one Deployment."""
        found = self.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        return dict(found["metadata"].get("annotations") or {})

    def people(self, plural: str, namespace: str) -> list[dict[str, Any]]:
        """The specs of the `pauses` or `scalerequests` of a namespace, oldest first."""
        group = "/apis/dependency-watchdog.gardener.cloud/v1alpha1"
        found = self.get(f"{group}/namespaces/{namespace}/{plural}")["items"]
        found.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [each["spec"] for each in found]


@pytest.fixture(scope="session")
def seed(demo: Api) -> Seed:
    assert demo.kubeconfig is not None
    return Seed(demo.kubeconfig)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The demo: a seed, its shoots, and the unchanged program."""
    scenario = tmp_path_factory.mktemp("demo") / "page.yaml"
    scenario.write_text(SCENARIO)
    free = [f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics", "health")]
    words = ["demo", f"--scenario={scenario}", "--shoots=6", "--nodes=4", *free]
    process = subprocess.Popen(
        [sys.executable, "-m", "app", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        # It says the page's address first.
        page = r"The page: (http://127\.0\.0\.1:\d+)/"
        url = next(filter(None, (re.search(page, line) for line in said)))
        config = next(filter(None, (re.search(r"--kubeconfig (\S+)", line) for line in said)))
        threading.Thread(target=lambda: list(said), daemon=True).start()
        api = Api(url[1], Path(config[1]))
        path = "/api/v1/shoots?state=Healthy"
        api.until("/readyz", lambda _: True)
        api.until(path, lambda found: found["metadata"]["total"] == 6)
        yield api
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def wire(demo: Api) -> Iterator[Wire]:
    found = Wire(demo.url)
    yield found
    found.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, as tests/page/package-lock.json pins it."""
    file = HERE / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("needs npm, for axe-core")
        words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(words, cwd=HERE, check=True, capture_output=True)
    return file.read_text()
