"""A secret that somebody pastes into a reason is told to nobody who reads of it (threat T12)."""

import asyncio
import json
from typing import Any

import pytest

from app.core.model.weeding import ServiceKey
from tests.core.kube.server import until
from tests.service.lives import BOTH, SERVICE, living
from tests.service.test_overrides import ask
from tests.support.harness import SHOOT

pytestmark = pytest.mark.looptime(False)

JWT = ".".join(["eyJhbGciOiJSUzI1NiJ9", "eyJzdWIiOiJjYW5hcnkifQ", "c2lnbmF0dXJlLWNhbmFyeQ"])
PASSWORD = "canary-hunter2"
REASON = f"try it with {JWT} or password={PASSWORD} at https://a:{PASSWORD}@lb, pw: {PASSWORD}, --token {PASSWORD}"
CLEAN = "try it with [redacted] or password=[redacted] at https://[redacted]@lb, pw: [redacted], --token [redacted]"
_SHOOT = f"/api/v1/shoots/{SHOOT}"
_SERVICE = f"/api/v1/weeders/{SHOOT}/{SERVICE}"
_READ = ["/api/v1/audit", "/api/v1/operations", "/api/v1/weeders", "/api/v1/status", "/api/v1/shoots",
         _SHOOT, f"{_SHOOT}/history", _SERVICE]  # fmt: skip


class Told:
    """All that a process has told, by where it did."""

    def __init__(self, found):
        self.found = found
        self.places = {"answers": "", "stream": ""}
        self.notices: list[Any] = []
        found.core.notice_bus.subscribe(self.notices.append)

    async def call(self, method, path, body=None):
        code, answer = await ask(self.found, method, path, body)
        self.places["answers"] += json.dumps(answer)
        assert code < 300, answer
        return answer

    async def listen(self):
        """Follows the stream of events until the server ends it."""
        reader, writer = await asyncio.open_connection(*self.found.service.address("API"))
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while line := await reader.readline():
            self.places["stream"] += line.decode()
        writer.close()

    async def look(self):
        """Where it was told, and what; each of them must have told something."""
        for path in _READ:
            self.places[path] = json.dumps((await ask(self.found, "GET", path))[1])
        self.places["notices"] = repr(self.notices)  # Events are made of nothing else
        made = [self.found.world.store.list(kind) for kind in ("Pause", "ScaleRequest")]
        self.places["objects"] = repr(made)
        return self.places


async def decide(told):
    """Everything that has a reason, once."""
    resource = f"{_SHOOT}/resources/Deployment/kube-controller-manager/ignore-scaling"
    await told.call("POST", f"{_SHOOT}/probe")
    await told.call("POST", _SERVICE, {"reason": REASON})
    await told.call("PUT", "/api/v1/pause", {"reason": REASON, "scope": "scaleDown"})
    await told.call("PUT", f"{_SHOOT}/pause", {"reason": REASON, "scope": "scaleDown"})
    await told.call("PUT", resource, {"reason": REASON})
    await told.call("POST", f"{_SHOOT}/scale", {"direction": "down", "reason": REASON})


def assert_told_clean(places, *, kept):
    for name, text in places.items():
        secrets = [JWT, *JWT.split("."), PASSWORD]
        assert not [each for each in secrets if each in text], f"{name}: {text}"
    for name in kept:
        assert CLEAN in places[name], name


async def test_a_secret_in_a_reason_of_a_call_is_in_no_record_of_it(lines):
    async with living(loops=BOTH) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        told, weeder = Told(found), found.service.weeder.weeder.controller
        await until(lambda: weeder.status(ServiceKey(SHOOT, SERVICE)))
        listening = asyncio.ensure_future(told.listen())
        await until(lambda: told.places["stream"])
        await decide(told)
        await until(lambda: "held until" in told.places["stream"])
        await until(lambda: any(each.reason == "ScaleRequestSucceeded" for each in told.notices))
        await until(lambda: sum(CLEAN in each.message for each in told.notices) > 3)
        places = await told.look()
    await listening
    places["log"] = repr(lines)
    kept = {"answers", "stream", "notices", "objects", "log", f"{_SHOOT}/history"}
    assert_told_clean(places, kept=kept | {"/api/v1/audit", "/api/v1/operations", _SERVICE})


async def test_a_secret_that_kubectl_wrote_stays_where_it_was_written(lines):
    async with living(loops=BOTH) as found:
        await until(lambda: found.service.prober.prober.registry.status(SHOOT))
        told = Told(found)
        for where in (SHOOT, "garden"):
            fields = {"reason": REASON, "author": "bob", "scope": "scaleDown"}
            found.world.people.create("Pause", where, "mine", **fields)
        fields = {"reason": REASON, "author": JWT, "direction": "Down"}
        found.world.people.create("ScaleRequest", SHOOT, "mine", **fields)
        await until(lambda: sum(each.reason == "PauseStarted" for each in told.notices) > 1)
        await until(lambda: any(each.reason == "ScaleRequestSucceeded" for each in told.notices))
        assert (await ask(found, "DELETE", f"{_SHOOT}/pauses/mine"))[0] == 204
        places = await told.look()
    places["log"] = repr(lines)
    del places["objects"]
    assert_told_clean(places, kept={"notices", "log", f"{_SHOOT}/history", "/api/v1/audit"})
