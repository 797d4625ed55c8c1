"""docs/runbook.md: how API and metrics are asked in production, over TLS, with tokens, through a forwarded port."""

import os
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.pages import DOCS, Page
from tests.support.certs import Authority

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl"))), reason="the page is written for bash and curl"
    ),
]

PAGE = Page(DOCS / "runbook.md")
NAME = "dependency-watchdog-prober.garden.svc"
BY_FUNCTION = [PAGE, Page(DOCS / "operate.md")]


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
        self.end_headers()
        self.wfile.write(b"answered")

    do_PUT = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def served(tmp_path) -> Iterator[tuple[Server, Server]]:
    """The API with the certificate of its Service, the metrics without TLS, and the files that the page names."""
    authority = Authority.create("test")
    pair = authority.server([NAME])
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "token").write_text("of-a-caller\n")
    (tmp_path / "scraper-token").write_text("of-a-scraper\n")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair.pem")
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


def functions() -> str:
    """What the page defines for production."""
    (block,) = (
        found.text
        for _, found in PAGE.blocks
        if re.search(r"^api\(\).*https:", found.text, re.MULTILINE)
    )
    return "\n".join(line for line in block.splitlines() if re.match(r"\w+\(\)", line))


def ask(folder, api, metrics, line) -> str:
    text = functions().replace(":8080", f":{api.server_port}")
    text = text.replace("localhost:9643", f"localhost:{metrics.server_port}")
    found = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        ["bash", "-c", f"{text}\n{line}"],
        check=False,
        cwd=folder,
        env=found,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done.stdout


def test_the_api_is_asked_by_the_name_on_its_certificate_with_the_callers_token(served, tmp_path):
    api, metrics = served
    assert ask(tmp_path, api, metrics, "api '/api/v1/shoots?state=Failing&limit=5'") == "answered"
    assert api.asked == [("GET", "/api/v1/shoots?state=Failing&limit=5", "Bearer of-a-caller")]


def test_what_stands_behind_the_path_is_for_curl(served, tmp_path):
    api, metrics = served
    assert ask(tmp_path, api, metrics, "api /api/v1/config/log-level -X PUT -d x") == "answered"
    assert api.asked == [("PUT", "/api/v1/config/log-level", "Bearer of-a-caller")]


def test_a_server_that_another_ca_vouches_for_is_not_asked(served, tmp_path):
    api, metrics = served
    (tmp_path / "ca.crt").write_bytes(Authority.create("other").pem)
    assert ask(tmp_path, api, metrics, "api /api/v1/status") == ""
    assert api.asked == []


def test_the_metrics_are_asked_with_the_scrapers_token(served, tmp_path):
    api, metrics = served
    assert ask(tmp_path, api, metrics, "metrics | grep answered") == "answered\n"
    assert metrics.asked == [("GET", "/metrics", "Bearer of-a-scraper")]


@pytest.mark.parametrize("page", BY_FUNCTION, ids=str)
def test_the_pages_ask_in_no_other_way(page):
    """Or the line works in the demo only."""
    text = re.sub(r"^(api|metrics)\(\).*$", "", page.text, flags=re.MULTILINE)
    assert re.findall(r"curl .*localhost:(?:8080|9643)\S*", text) == []
