"""docs/operate.md: how API and metrics are asked in production, over TLS, with tokens, through a forwarded port."""

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.pages import DOCS, ROOT, Page
from tests.support.certs import Authority, server_context
from tests.support.programs import ended, write_program

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl"))), reason="the page is written for bash and curl"
    ),
]

PAGE = Page(DOCS / "operate.md")
NAME = "dependency-watchdog-prober.garden.svc"
EMPTY = '{"items": [], "metadata": {"total": 0, "continue": null}}'


class Server(ThreadingHTTPServer):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    """Answers everything."""

    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.command, self.path, self.headers["Authorization"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(EMPTY.encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def served(tmp_path) -> Iterator[tuple[Server, Server]]:
    """The API with the certificate of its Service, the metrics without TLS, and the files that the page names."""
    authority = Authority.create("test")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "scraper-token").write_text("of-a-scraper\n")
    context = server_context(authority.server([NAME]))
    api, metrics = Server(), Server()
    api.socket = context.wrap_socket(api.socket, server_side=True)
    threads = [threading.Thread(target=each.serve_forever) for each in (api, metrics)]
    for thread in threads:
        thread.start()
    yield api, metrics
    for server in (api, metrics):
        server.shutdown()
        server.server_close()
    for thread in threads:
        thread.join()


def variables() -> str:
    """What the page sets for production."""
    return "\n".join(line.text for line in PAGE.shell_lines if line.text.startswith("export DWD_"))


def ask(folder, api, metrics, line):
    """Types the line after what the page sets; the forwarded port is the server's own."""
    forwarding = f"Forwarding from 127.0.0.1:{api.server_port} -> 8080"
    made = json.dumps({"status": {"token": "of-a-caller", "userInfo": {"username": "alice"}}})
    token = f"[ $1 = port-forward ] || {{ echo '{made}'; exit; }}"
    write_program(folder / "kubectl", f"{token}\necho '{forwarding}'\nexec sleep 30")
    line = line.replace("localhost:9643", f"localhost:{metrics.server_port}")
    line = re.sub(r"^dwd\b", f"{sys.executable} -m app", line)
    found = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    found |= {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return ended("bash", "-c", f"{variables()}\n{line}", cwd=folder, env=found)


def test_the_api_is_asked_by_the_name_on_its_certificate_with_the_callers_token(served, tmp_path):
    api, metrics = served
    done = ask(tmp_path, api, metrics, "dwd shoots -o json")
    assert (done.returncode, json.loads(done.stdout)["items"]) == (0, []), done.stderr
    ((method, path, token),) = api.asked
    assert (method, path.partition("?")[0], token) == (
        "GET",
        "/api/v1/shoots",
        "Bearer of-a-caller",
    )


def test_the_metrics_are_asked_with_the_scrapers_token(served, tmp_path):
    api, metrics = served
    (line,) = {line.text for line in PAGE.shell_lines if ":9643" in line.text}
    assert ask(tmp_path, api, metrics, line.partition(" >")[0]).stdout == EMPTY
    assert metrics.asked == [("GET", "/metrics", "Bearer of-a-scraper")]


@pytest.mark.parametrize("page", [PAGE, Page(DOCS / "runbook.md")], ids=str)
def test_the_pages_ask_in_no_other_way(page):
    """Or the line works in the demo only."""
    asked = re.findall(r"curl .*localhost:(?:8080|9643)\S*", page.text)
    assert [line for line in asked if "scraper-token" not in line] == []
