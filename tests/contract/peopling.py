"""Pauses and ScaleRequests on either cluster: our port on them, and people who write them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST, CustomObjects
from tests.contract.arena import KINDS, Json, until
from tests.contract.real import Arena
from tests.contract.wire import Wire
from tests.e2e import objects

PROCESS = "watchdog-1"
"""The identity of the process whose adapter this is."""


class Peopling:
    """The adapters, with the rights of threat T16 to both kinds and no more, and people."""

    def __init__(self, arena: Arena, wire: Wire) -> None:
        self._arena, self._wire, self.clock = arena, wire, arena.clock
        shared = (arena.adapter.api, PROCESS, arena.tasks, Random(1))
        self.pauses = CustomObjects(PAUSE, *shared)
        self.requests = CustomObjects(SCALE_REQUEST, *shared)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Both are watched within, and listed once."""
        for plural in ("pauses", "scalerequests"):
            await self._arena.grant(plural, objects.people_rules(plural))
        both = (self.pauses, self.requests)
        async with AsyncExitStack() as stack:
            for each in both:
                await each.start()
                stack.push_async_callback(each.close)
            await until(lambda: all(each.watch_state().synced for each in both), "they are listed")
            yield

    async def make(self, kind: str, name: str, **spec: Any) -> None:
        """Somebody creates one with kubectl."""
        body = {
            "apiVersion": KINDS[kind].api_version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"reason": "a test", **spec},
        }
        answer = await self._wire.ask("POST", KINDS[kind].path(self._arena.namespace), body)
        assert answer.status == 201, answer.text

    async def edit(self, kind: str, name: str, **spec: Any) -> None:
        await self._arena.admin.patch(kind, name, {"spec": spec})

    async def delete(self, kind: str, name: str) -> None:
        await self._arena.admin.delete(kind, name)

    async def find(self, kind: str, name: str) -> Json | None:
        return await self._arena.admin.find(kind, name)
