"""Every request that would change something leaves an audit record, whatever comes of it: raw ASGI, around all else."""

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.requests import HTTPConnection
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.model.callers import Caller
from app.core.reporting.audit import Attempt, AuditLog

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Those that change nothing."""
_PROBLEM: Final = 8_192
"""Bytes of an answer that are looked at for the type of its problem."""


@dataclass(slots=True)
class AuditDraft:
    """Filled in by the call; the record is made of it and of the answer (`records.audit`)."""

    action: str = ""
    """As `pause`, `scale`; empty: the call did not get so far."""
    namespace: str | None = None
    target: str | None = None
    """What of the shoot: `Deployment/kube-controller-manager`, an operation, a service."""
    reason: str | None = None
    """What the caller said."""
    before: Any = None
    after: Any = None


def draft_of(connection: HTTPConnection) -> AuditDraft:
    """The draft of this request; one that nobody reads where it is not audited."""
    found = getattr(connection.state, "audit", None)
    return found if isinstance(found, AuditDraft) else AuditDraft()


class Aim(NamedTuple):
    """What a request would change, by its head."""

    call: str = ""
    """The function that answers it; empty: there is none."""
    namespace: str | None = None
    """Of the path; None: it has none."""


NOWHERE: Final = Aim()


class Aims:
    """Finds out what a request is aimed at, also where it is refused before anybody has looked.

    Args:
        app: has all its routes.
    """

    def __init__(self, app: FastAPI) -> None:
        self._writes = [
            (method, compile_path(route.path or "")[0], route.name or "")
            for route in iter_route_contexts(app.routes)
            for method in set(route.methods or ()) - SAFE_METHODS
        ]

    def __call__(self, scope: Scope) -> Aim:
        """What it is aimed at; nothing, where the API has no such call."""
        for method, path, name in self._writes:
            if method == scope["method"] and (found := path.match(scope["path"])) is not None:
                return Aim(name, found.groupdict().get("namespace"))
        return NOWHERE


class Auditing:
    """Makes the record of each request with an unsafe method: performed, refused by anything inside, or failed.

    It stands outside of the guard, so that it sees what the guard refuses, and the answer that the caller sees.

    Args:
        app: what is asked.
        audit: takes the records.
        aims: what a request is aimed at.
        exists: whether the seed has a shoot with this namespace: of names that callers invent there are too many.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        audit: AuditLog,
        aims: Callable[[Scope], Aim] = lambda _: NOWHERE,
        exists: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._app = app
        self._audit = audit
        self._aims, self._exists = aims, exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        draft, answer = AuditDraft(), _AnswerSeen(send, uuid.uuid4().hex)
        scope.setdefault("state", {})["audit"] = draft
        try:
            await self._app(scope, receive, answer.send)
        finally:
            aim = self._aims(scope)
            self._audit.note(_attempt(scope, draft, answer, aim), self._words(aim))

    def _words(self, aim: Aim) -> str:
        known = aim.namespace is not None and self._exists(aim.namespace)
        return f"{aim.call} {aim.namespace}" if known else aim.call


class _AnswerSeen:
    """An answer on its way out: what the record needs of it."""

    def __init__(self, send: Send, request: str) -> None:
        self._send = send
        self.request = request
        self.status: int | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            name = (b"x-request-id", self.request.encode())
            message = {**message, "headers": [*message.get("headers", ()), name]}
        elif len(self._body) < _PROBLEM:
            self._body += message.get("body", b"")[:_PROBLEM]
        await self._send(message)

    def problem(self) -> str | None:
        """The type of the problem that it was, if it was one."""
        if self.status is None or self.status < 400:  # noqa: PLR2004 - where HTTP's errors begin
            return None
        with suppress(ValueError, TypeError, KeyError):
            return str(json.loads(self._body)["type"])
        return None


def _attempt(scope: Scope, draft: AuditDraft, answer: _AnswerSeen, aim: Aim) -> Attempt:
    caller = scope["state"].get("caller")
    return Attempt(
        request=answer.request,
        method=scope["method"],
        path=scope["path"],
        peer=(scope.get("client") or ("",))[0],
        status=answer.status,
        problem=answer.problem(),
        caller=caller.name if isinstance(caller, Caller) else None,
        action=draft.action,
        namespace=aim.namespace if draft.namespace is None else draft.namespace,
        target=draft.target,
        reason=draft.reason,
        before=draft.before,
        after=draft.after,
    )
