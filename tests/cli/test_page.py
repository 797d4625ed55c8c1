"""`dwd page`: who may use the proxy, what it sends on and passes back, and how it looks after the way."""

import asyncio
import http.client
import io
import json
import os
import queue
import random
import re
import signal
import ssl
import subprocess
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from app.cli import page_gate, page_proxy
from app.cli.client import Client
from app.cli.page_gate import belongs_to
from app.cli.printing import Printer
from app.cli.session import Session
from app.cli.tokens import NoToken, TokenFile
from app.cli.transports import DirectTransport
from app.core.clock import Clock
from app.core.config.client_settings import OutputFormat, PageSettings
from app.core.config.values import origin
from app.core.limits import Backoff
from tests.cli.conftest import run, started
from tests.cli.server import FakeApi, Reply, half_an_answer, page, problem, standby
from tests.cli.test_portforward import DEPLOYMENT, Cluster
from tests.support.programs import write_program
from tests.support.wire import Wire

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

HOME = Reply(b"<h1>all shoots</h1>", headers={"Content-Type": "text/html"})
HTML = {"Accept": "text/html"}
NOW = 1_800_000_000.0


class Way:
    """A running `dwd page`, and a browser of ours."""

    def __init__(self, url, browser, said):
        self.url, self.browser, self._said = url, browser, said
        self.origin = url.partition("/enter/")[0]
        self.port = int(self.origin.rpartition(":")[2])

    @property
    def told(self):
        return self._said.getvalue()

    async def enter(self):
        """Opens the address, as the browser does; the cookie is kept by hand, to be stolen and changed."""
        async with self.browser.get(self.url, allow_redirects=False) as answer:
            self.answer = answer
            self.cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
            return answer.status, answer.headers.get("Location")

    async def ask(self, path="/", method="GET", cookie=None, body=None, **headers):
        """Asks with the cookie; status, text and headers."""
        own = {"Cookie": self.cookie if cookie is None else cookie, **HTML}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.browser.request(
            method, self.origin + path, headers=own, data=body, allow_redirects=False
        ) as answer:
            return answer.status, await answer.text(), answer.headers

    async def raw(self, head, body=b""):
        """Sends bytes, and returns the first line of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(head.encode("latin-1").replace(b"\n", b"\r\n") + b"\r\n\r\n" + body)
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return line.decode().strip()

    async def heard(self, pattern):
        """Waits until the terminal has said this."""
        for _ in range(400):
            if re.search(pattern, self.told):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(self.told)


@asynccontextmanager
async def way(api, tokens=None, **settings):
    """Runs `dwd page --no-browser` against an API."""
    out, err = io.StringIO(), io.StringIO()
    transport = DirectTransport(origin(api.url))
    tokens, tls = tokens or NoToken(), ssl.create_default_context()
    flags = PageSettings(no_browser=True, output="json", **settings)
    async with (
        Client(transport, tokens, tls, timeout=2.0) as client,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as browser,
    ):
        printer = Printer(out, err, OutputFormat.JSON, {})
        session = Session(client, printer, Clock.system(), random.Random(1))
        task = asyncio.get_running_loop().create_task(page_proxy.page(session, flags))
        try:
            while not out.getvalue().endswith("}\n"):
                await asyncio.sleep(0.01)
                if task.done():
                    task.result()
            yield Way(json.loads(out.getvalue())["url"], browser, err)
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def inside(api, tokens=None, **settings):
    """The same, once the browser has opened the address."""
    async with way(api, tokens, **settings) as here:
        assert await here.enter() == (303, "/")
        yield here


@pytest.fixture
def api():
    with FakeApi() as found:
        found.on("GET /shoots", page())
        found.on("GET /", HOME)
        yield found


@pytest.fixture
def wire(api):
    found = Wire(api.url)
    yield found
    found.close()


@pytest.fixture
def quick(monkeypatch):
    """The way is tried again at once."""
    monkeypatch.setattr(page_proxy, "_PACE", Backoff(0.05, 0.1))
    monkeypatch.setattr(page_proxy, "_LOOK_AGAIN", 0.0)


# Who may come in.


async def test_the_secret_becomes_a_cookie_that_no_script_and_no_other_site_has(api):
    async with way(api) as here:
        assert await here.enter() == (303, "/")
        cookie = here.answer.headers["Set-Cookie"]
        assert cookie.startswith(f"dwd_page_{here.port}=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert "Domain" not in cookie
        assert here.answer.headers["Referrer-Policy"] == "no-referrer"
        status, text, _ = await here.ask()
        assert (status, text) == (200, "<h1>all shoots</h1>")
        assert "enter" not in "".join(api.lines), "the secret is nobody else's"


async def test_without_the_cookie_nothing_is_sent_on(api):
    async with inside(api) as here:
        asked = len(api.asked)
        other = here.cookie.partition("=")[0]
        for cookie in ("", "x", f"{other}=", f"{other}=guess", f"dwd_page={here.cookie[-43:]}"):
            status, text, _ = await here.ask(cookie=cookie)
            assert status == 401
            assert "Only the browser that dwd page has opened" in text
        assert len(api.asked) == asked


async def test_the_secret_works_once(api):
    async with inside(api) as here:
        assert await here.enter() == (403, None)
        assert "Set-Cookie" not in here.answer.headers
        assert "asked for again, by another browser, and that was refused" in here.told


async def test_the_browser_may_go_back_to_the_address_that_it_used(api):
    async with inside(api) as here:
        status, _, headers = await here.ask(here.url.removeprefix(here.origin))
        assert (status, headers["Location"]) == (303, "/")
        assert "Set-Cookie" not in headers
        assert here.told == ""


async def test_a_secret_that_is_wrong_or_posted_lets_nobody_in(api):
    async with way(api) as here:
        for path, method in (("/enter/", "GET"), ("/enter/guess", "GET")):
            assert (await here.ask(path, method, cookie=""))[0] == 403
        secret = here.url.removeprefix(here.origin)
        assert (await here.ask(secret, "POST", cookie=""))[0] == 403
        assert await here.enter() == (303, "/"), "it was not used up"


SITES = ("cross-site", "same-site", "Same-Origin", "")
ORIGINS = ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:{}")
REBOUND = ("evil.example:{}", "localhost:{}", "127.0.0.1", "[::1]:{}", "")
"""Names that were made to resolve to this machine (DNS rebinding): a browser would send what it has for them."""


@pytest.mark.parametrize(
    ("name", "value", "status", "says"),
    [
        *(("Sec_Fetch_Site", each, 403, "Another site has asked") for each in SITES),
        *(("Origin", each, 403, "Another site has asked") for each in ORIGINS),
        *(("Host", each, 421, "This is 127.0.0.1:{}") for each in REBOUND),
    ],
)
async def test_another_site_or_name_gets_nothing_even_with_the_cookie(
    api, name, value, status, says
):
    async with inside(api) as here:
        asked = len(api.asked)
        for method in ("GET", "POST"):
            found, text, _ = await here.ask(method=method, **{name: value.format(here.port)})
            assert (found, says.format(here.port) in text) == (status, True)
        assert len(api.asked) == asked


async def test_its_own_page_may_ask(api):
    async with inside(api) as here:
        own = {"Origin": here.origin, "Sec_Fetch_Site": "same-origin"}
        assert (await here.ask(**own))[0] == 200
        assert (await here.ask(Sec_Fetch_Site="none"))[0] == 200


async def test_two_hosts_an_upgrade_a_tunnel_and_other_methods_are_refused(api):
    async with inside(api) as here:
        host = f"Host: 127.0.0.1:{here.port}\nCookie: {here.cookie}"
        asked = len(api.asked)
        upgrade = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: eA=="
        assert " 400 " in await here.raw(f"GET / HTTP/1.1\n{host}\n{upgrade}")
        assert " 400 " in await here.raw(
            f"GET / HTTP/1.1\n{host}\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c"
        )
        for method in ("OPTIONS", "TRACE", "PATCH", "BREW"):
            assert re.search(" 40[05] ", await here.raw(f"{method} / HTTP/1.1\n{host}")), method
        assert " 200 " not in await here.raw(f"CONNECT evil.example:443 HTTP/1.1\n{host}")
        assert " 200 " not in await here.raw(f"GET http://evil.example/ HTTP/1.1\n{host}")
        assert " 200 " not in await here.raw(f"GET / HTTP/1.1\n{host}\nHost: evil.example")
        assert len(api.asked) == asked


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="takes another user's place")
async def test_another_user_of_the_machine_gets_nothing_even_with_the_cookie(api):
    async with inside(api) as here:

        def ask(user):
            command = f"curl -s -o /dev/null -w %{{http_code}} -b {here.cookie} {here.origin}"
            return subprocess.run(
                command.split(), user=user, capture_output=True, text=True, check=False
            ).stdout

        assert await asyncio.to_thread(ask, os.getuid()) == "200"
        assert await asyncio.to_thread(ask, 65534) == "403"
        assert "a request of another user of this machine was refused" in here.told


def test_whose_a_connection_is_is_read_from_the_kernels_tables(monkeypatch, tmp_path):
    ours, theirs = ("127.0.0.1", 8001), ("127.0.0.1", 50000)
    end = "0100007F:{:04X}".format
    row = "   0: {} {} {} 00000000:00000000 00:00000000 00000000 {:>5} 0 1"
    table = tmp_path / "tcp"
    monkeypatch.setattr(page_gate, "_TABLES", (table, tmp_path / "none"))

    def seen(*rows):
        table.write_text("\n".join(["  sl  local_address …".replace("…", "rem"), *rows]) + "\n")
        return belongs_to(1000, ours, theirs)

    near = row.format(end(8001), end(50000), "01", 1000)
    assert seen(near, row.format(end(50000), end(8001), "01", 1000)) is True
    assert seen(near, row.format(end(50000), end(8001), "01", 0)) is True
    assert seen(near, row.format(end(50000), end(8001), "01", 1001)) is False
    assert seen(near, row.format(end(50000), end(8001), "04", 0)) is False, "an orphan is nobody's"
    assert seen(near) is False, "its other end has gone"
    mapped = "0000000000000000FFFF00000100007F:C350"
    assert seen(near, row.format(mapped, end(8001), "01", 1000)) is True
    assert seen() is True, "a kernel that shows no connections leaves it to the cookie"


# What is sent on, and passed back.


async def test_the_token_is_added_and_what_the_browser_says_of_itself_is_not_sent(api, tmp_path):
    token = tmp_path / "token"
    token.write_text("the-token")
    async with inside(api, TokenFile(token)) as here:
        await here.ask(
            "/?state=Protected&q=%2e%2e",
            Authorization="Bearer mine",
            Dwd_Claimed_User="mallory",
            X_Forwarded_For="10.0.0.1",
            Origin=here.origin,
            If_None_Match='"a"',
            Accept_Encoding="gzip",
        )
        assert here.cookie
    sent = api.asked[-1]
    assert (sent.path, sent.query) == ("/", {"state": "Protected", "q": ".."})
    assert sent.headers["Authorization"] == "Bearer the-token"
    ours = {"Cookie", "Dwd-Claimed-User", "X-Forwarded-For", "Origin", "Sec-Fetch-Site"}
    for name in ours | {"If-None-Match"}:
        assert name not in sent.headers, "and no condition that the API does not read"
    assert "the-token" not in here.told


async def test_a_write_goes_to_the_api_with_its_body_and_its_condition(api):
    async with inside(api) as here:
        api.on(
            "POST /shoots/a/scale",
            Reply({"id": "x"}, 202, {"Location": "http://10.0.0.1:8080/api/v1/operations/x"}),
        )
        status, text, headers = await here.ask(
            "/api/v1/shoots/a/scale",
            "POST",
            body=b'{"reason": "r"}',
            Content_Type="application/json",
            If_Match='"e"',
        )
        assert (status, json.loads(text), headers["Location"]) == (
            202,
            {"id": "x"},
            "/api/v1/operations/x",
        )
        assert api.asked[-1].body == {"reason": "r"}
        assert api.asked[-1].headers["If-Match"] == '"e"'


async def test_what_an_answer_sets_for_a_whole_host_stays_behind(api):
    more = {
        "Set-Cookie": "a=b",
        "Strict-Transport-Security": "max-age=1",
        "Clear-Site-Data": '"*"',
        "Access-Control-Allow-Origin": "*",
        "WWW-Authenticate": "Basic",
        "Content-Security-Policy": "default-src 'none'",
        "ETag": '"e"',
    }
    async with inside(api) as here:
        api.on("GET /x", Reply({}, 200, more))
        _, _, headers = await here.ask("/api/v1/x")
        assert headers["ETag"] == '"e"'
        assert headers["Content-Security-Policy"] == "default-src 'none'"
        for name in list(more)[:5]:
            assert name not in headers


async def test_events_come_through_one_by_one(api):
    gone = asyncio.Event()
    more: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def stream(request):
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            while True:
                found = asyncio.run_coroutine_threadsafe(more.get(), loop)
                await answer.write(await asyncio.wrap_future(found))
        finally:
            loop.call_soon_threadsafe(gone.set)

    async with inside(api) as here:
        api.on("GET /events", stream)
        headers = {"Cookie": here.cookie, "Accept": "text/event-stream", "Last-Event-ID": "7"}
        async with here.browser.get(f"{here.origin}/api/v1/events", headers=headers) as answer:
            for each in (b"event: a\ndata: 1\n\n", b": heartbeat\n\n", b"event: b\ndata: 2\n\n"):
                await more.put(each)
                assert await asyncio.wait_for(answer.content.readany(), 5) == each
            assert api.asked[-1].headers["Last-Event-ID"] == "7"
            answer.close()
        async with asyncio.timeout(10):
            while not gone.is_set():
                await more.put(b": to nobody\n\n")
                await asyncio.sleep(0.05)
        assert here.told == "", "a browser that leaves breaks no way"


async def test_a_body_that_is_too_big_is_refused_and_not_sent(api):
    async with inside(api) as here:
        asked = len(api.asked)
        host = f"Host: 127.0.0.1:{here.port}\nCookie: {here.cookie}"
        for length in ("Content-Length: 70000", "Transfer-Encoding: chunked"):
            body = b"x" * 70_000
            body = b"11170\r\n" + body + b"\r\n0\r\n\r\n" if "chunked" in length else body
            assert " 413 " in await here.raw(
                f"PUT /api/v1/config/log-level HTTP/1.1\n{host}\n{length}", body
            )
        assert len(api.asked) == asked


@pytest.mark.parametrize(
    "line",
    [
        "X: " + "x" * 20_000,
        "Cookie: " + "x" * 20_000,
        "Content-Length: 5\nTransfer-Encoding: chunked",
        "Content-Length: -1",
        "Content-Length: 1\nContent-Length: 2",
        " folded: x",
        "X\x00Y: z",
        "Accept: text/html\n\tHost: evil.example",
    ],
)
async def test_hostile_heads_are_answered_and_nothing_is_sent_on(api, line):
    async with inside(api) as here:
        asked = len(api.asked)
        head = (
            f"POST /api/v1/x HTTP/1.1\nHost: 127.0.0.1:{here.port}\nCookie: {here.cookie}\n{line}"
        )
        assert await here.raw(head) in {"HTTP/1.0 400 Bad Request", "HTTP/1.1 400 Bad Request"}
        assert len(api.asked) == asked
        assert (await here.ask())[0] == 200
        assert here.told == ""


# The way.


async def test_it_begins_at_the_leader_and_follows_it(quick):
    with FakeApi() as first, FakeApi() as second:
        first.on("GET /", HOME).on("GET /shoots", standby(f"127.0.0.1:{second.port}"), page())
        second.on("GET /", Reply(b"second")).on(
            "GET /shoots", page(), standby(f"127.0.0.1:{first.port}")
        )
        second.on("PUT /shoots/a/pause", standby(f"127.0.0.1:{first.port}"))
        first.on("PUT /shoots/a/pause", {"scope": "all"})
        async with inside(first) as here:
            assert (await here.ask())[1] == "second"
            status, text, _ = await here.ask(
                "/api/v1/shoots/a/pause",
                "PUT",
                body=b'{"reason": "r"}',
                Content_Type="application/json",
            )
            assert (status, json.loads(text)) == (200, {"scope": "all"})
            assert first.asked[-1].body == {"reason": "r"}
            assert (await here.ask())[1] == "<h1>all shoots</h1>"


async def test_a_refusal_that_is_not_about_the_leader_is_passed_on_as_it_is(api):
    async with inside(api) as here:
        api.on("GET /metrics", problem(503, "feature-off", "It is off", "the words"))
        status, text, headers = await here.ask("/api/v1/metrics")
        assert (status, json.loads(text)["detail"]) == (503, "the words")
        assert headers["Content-Type"] == "application/problem+json"


async def test_a_standby_whose_leader_cannot_be_reached_is_shown_and_said_so():
    with FakeApi() as gone:
        nowhere = standby(f"127.0.0.1:{gone.port}")
    with FakeApi() as api:
        api.on("GET /", HOME).on("GET /shoots", nowhere)
        async with inside(api) as here:
            assert (await here.ask())[0] == 200
            assert "connected to a standby, and its leader is unreachable" in here.told


async def test_a_process_that_runs_only_the_weeder_is_shown_itself():
    with FakeApi() as weeder, FakeApi() as prober:
        elsewhere = problem(503, "loop-not-here", "Not here", "it runs there", peer=prober.url)
        weeder.on("GET /", HOME).on("GET /shoots", elsewhere).on("GET /weeders", page())
        async with inside(weeder) as here:
            assert (await here.ask())[0] == 200
            assert prober.asked == []
            assert here.told == ""


async def test_a_way_that_breaks_is_said_to_and_comes_back(wire, quick):
    """The terminal says it once, the browser gets a sentence, and both come back by themselves."""
    async with inside(wire) as here:
        assert (await here.ask())[0] == 200
        wire.cut()
        status, text, headers = await here.ask()
        assert (status, headers["Retry-After"]) == (503, "5")
        assert '<meta http-equiv="refresh" content="5">' in text
        assert "The watchdog cannot be reached" in text
        await here.heard(r"connection lost at .*; retrying\n")
        status, text, headers = await here.ask(
            "/api/v1/shoots", Accept="application/problem+json, text/html"
        )
        assert headers["Content-Type"] == "application/problem+json"
        assert json.loads(text)["title"] == "The watchdog is unreachable"
        await asyncio.sleep(0.3)
        assert here.told.count("connection lost") == 1
        wire.mend()
        await here.heard("connection restored at ")
        assert (await here.ask())[0] == 200


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(api, quick):
    async with inside(api) as here:
        api.on("GET /half", half_an_answer)
        with pytest.raises(aiohttp.ClientError):
            await here.ask("/api/v1/half")
        assert (await here.ask())[0] == 200


# The command.


def test_an_api_that_cannot_be_reached_ends_it_before_a_browser_is_opened():
    with FakeApi() as api:
        url = api.url
    ran = run("page", "--no-browser", environ={"DWD_SERVER": url})
    assert (ran.code, ran.out) == (1, "")
    assert "cannot be reached" in ran.err


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (problem(401, "unauthenticated", "Nobody", "send a token"), 5),
        (problem(429, "too-many-requests", "Too many", "wait"), 6),
        (Reply(b"<html>", 404, {"Content-Type": "text/html"}), 4),
    ],
)
def test_a_caller_whom_nobody_knows_or_another_server_ends_it(reply, code):
    with FakeApi() as api:
        api.on("GET /shoots", reply)
        ran = run("page", "--no-browser", environ={"DWD_SERVER": api.url})
    assert (ran.code, ran.out) == (code, "")


def test_a_port_that_is_taken_is_said(api):
    ran = run("page", "--no-browser", f"--port={api.port}", environ={"DWD_SERVER": api.url})
    assert (ran.code, ran.out) == (2, "")
    assert f"--port: 127.0.0.1:{api.port} cannot be listened on: Address already in use" in ran.err


def begun(api, *words, **environ):
    """`dwd page` as a process of its own, and its first line."""
    process = started("page", *words, DWD_SERVER=api.url, **environ)
    return process, process.stdout.readline()


def test_ctrl_c_ends_it_as_it_ends_other_commands(api):
    process, line = begun(api, "--no-browser")
    assert re.fullmatch(r"The page is at http://127\.0\.0\.1:\d+/enter/[\w-]{43}\n", line)
    second = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, "")
    assert second == "That address works once, for one browser. Ctrl-C ends it.\n"


def test_the_browser_is_opened_at_the_address(api, tmp_path):
    opened = tmp_path / "opened"
    opens = f'echo "$1" > {opened}.part; mv {opened}.part {opened}; sleep 5'
    browser = write_program(tmp_path / "browser", opens)
    process, line = begun(api, BROWSER=f"{browser} %s &")
    for _ in range(200):
        if opened.exists():
            break
        signal.sigtimedwait([], 0.05)
    process.terminate()
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (143, "")
    assert opened.read_text().strip() == line.removeprefix("The page is at ").strip()


def test_where_no_browser_can_be_shown_the_address_is_for_people(api):
    process, _ = begun(api, BROWSER="", DISPLAY="", WAYLAND_DISPLAY="")
    said = process.stderr.readline()
    process.terminate()
    process.communicate(timeout=10)
    assert said == "dwd page: could not start a browser; open the address yourself\n"


def test_the_stream_of_events_goes_on_over_a_new_port_forward_where_the_old_one_has_broken(
    tmp_path,
):
    streams: list[queue.Queue[bytes]] = []

    async def stream(request):
        words: queue.Queue[bytes] = queue.Queue()
        streams.append(words)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        while request.transport is not None:
            while not words.empty():
                await answer.write(words.get())
            await asyncio.sleep(0.01)
        return answer

    with FakeApi() as pod, ExitStack() as opened:
        pod.on("GET /shoots", page()).on("GET /events", stream)
        cluster = Cluster(tmp_path)
        cluster.pods = {DEPLOYMENT: pod}
        process, line = begun(
            pod, "--no-browser", "--port-forward=garden/dwd-prober", **cluster.environ
        )
        opened.callback(process.communicate)
        opened.callback(process.kill)
        address = urlsplit(line.removeprefix("The page is at ").strip())

        def ask(path, **headers):
            connection = http.client.HTTPConnection(address.netloc, timeout=10)
            opened.callback(connection.close)
            connection.request("GET", path, headers={**HTML, **headers})
            return opened.enter_context(connection.getresponse())

        cookie = ask(address.path).getheader("Set-Cookie").partition(";")[0]
        own = {"Cookie": cookie, "Accept": "text/event-stream"}
        first = ask("/api/v1/events", **own)
        for each in (b"id: x-1\nevent: shoot\ndata: {}\n\n", b": heartbeat\nid: x-2\n\n"):
            streams[0].put(each)
            assert first.read1() == each, "each as it comes"
        (kubectl,) = cluster.running()
        os.kill(kubectl, signal.SIGKILL)
        with suppress(http.client.IncompleteRead):
            assert first.read1() == b"", "the browser sees the end, and comes back"
        own["Last-Event-ID"] = "x-2"
        while (again := ask("/api/v1/events", **own)).status != 200:
            signal.sigtimedwait([], 0.1)
        streams[-1].put(b"id: x-3\n\n")
        assert again.read1() == b"id: x-3\n\n"
        assert pod.asked[-1].headers["Last-Event-ID"] == "x-2"
        assert len(cluster.said("begins")) == 2
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
        # Where the new port-forward is there before anybody asks, the way was never broken.
        assert said.count("connection lost at") == said.count("connection restored at")
        assert cluster.running() == []
