"""An API that answers as a test says, in a thread of its own: the command under test has the main one."""

import asyncio
import json
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PROBLEM = "application/problem+json"
URN = "urn:dependency-watchdog:problem:"


def problem(status, slug="conflict", title="A title", detail="a detail", **more):
    """An answer that is a problem."""
    body = {"type": URN + slug, "title": title, "status": status, "detail": detail, **more}
    return Reply(body, status, {"Content-Type": PROBLEM})


def standby(address=None, identity="dwd-prober-6d5f-abcde_3f1c"):
    """The answer of a process that does not lead, and names the leader."""
    leader = {"identity": identity, "address": address}
    return problem(503, "not-the-leader", "Only the leader", f"{identity} leads", leader=leader)


def page(*items, following=None, total=None, **metadata):
    """A page of a list."""
    number = len(items) if total is None else total
    return {"items": list(items), "metadata": {"total": number, "continue": following, **metadata}}


@dataclass
class Reply:
    """What is answered."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0

    def content(self):
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass
class Asked:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class FakeApi:
    """Answers `METHOD /path` with the replies given for it, the last of them again and again."""

    def __init__(self, ssl=None):
        self.asked = []
        self._ssl = ssl
        self._replies = defaultdict(deque)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def on(self, line, *replies):
        """What `METHOD /path` (below /api/v1/) is answered with, one after the other."""
        self._replies[line].extend(
            each if isinstance(each, Reply) or callable(each) else Reply(each) for each in replies
        )
        return self

    @property
    def lines(self):
        return [f"{each.method} {each.path}" for each in self.asked]

    @property
    def url(self):
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self):
        asyncio.set_event_loop(None)
        runner = self._loop.run_until_complete(self._start())
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(runner.cleanup())
            self._loop.close()

    async def _start(self):
        app = web.Application(client_max_size=1 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._ssl)
        await site.start()
        self.port = runner.addresses[0][1]
        return runner

    async def _answer(self, request):
        text = await request.text()
        # raw: what was quoted stays quoted
        where = request.raw_path.partition("?")[0].removeprefix("/api/v1")
        asked = Asked(
            request.method,
            where,
            dict(request.query),
            dict(request.headers),
            json.loads(text) if text else None,
        )
        self.asked.append(asked)
        replies = self._replies.get(f"{request.method} {where}")
        if not replies:
            reply = problem(404, "not-found", "There is no such resource", "nothing here")
        else:
            reply = replies.popleft() if len(replies) > 1 else replies[0]
        if callable(reply):
            return await reply(request)
        if reply.wait:
            await asyncio.sleep(reply.wait)
        return web.Response(body=reply.content(), status=reply.status, headers=reply.headers)


async def half_an_answer(request):
    """The server ends while it answers."""
    answer = web.StreamResponse(headers={"Content-Length": "1000"})
    await answer.prepare(request)
    await answer.write(b'{"items": [')
    request.transport.close()
    return answer


async def no_answer(request):
    """The server ends once it has the request."""
    request.transport.abort()
    return web.Response()
