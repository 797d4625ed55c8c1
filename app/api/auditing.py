"""Audit: each request that would change something leaves a record, whether performed, refused or failed (raw ASGI).

The middleware is the outermost layer, so that it sees what every other layer refuses, and the answer as the caller got
it. A route adds what only it knows (the state before and after, the caller's reason) to the `Attempt`.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from urllib.parse import unquote

from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.model.callers import CLAIMED_USER, Caller
from app.core.reporting.audit import Attempt, AuditLog

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
# Most bytes of a claim that are decoded; a name of Kubernetes has at most 253 characters.
_CLAIM: Final = 1_000
_CLAIMED: Final = CLAIMED_USER.lower().encode()


class WriteOptions(Protocol):
    """What the caller of a write says in its body or query."""

    @property
    def reason(self) -> str: ...

    @property
    def dry_run(self) -> bool: ...


def drafted(
    connection: HTTPConnection,
    action: str,
    namespace: str | None = None,
    options: WriteOptions | None = None,
    *,
    target: str | None = None,
) -> Attempt:
    """The record of this request, with what its route knows before it does anything; what is only planned is a plan.

    For a request without audit, one that is thrown away.
    """
    found = getattr(connection.state, "audit", None)
    draft = found if isinstance(found, Attempt) else Attempt("", "", "", "")
    draft.action, draft.namespace, draft.target = action, namespace, target
    if options is not None:
        draft.action = "plan" if options.dry_run else action
        draft.reason = options.reason or None
    return draft


class Auditing:
    """Middleware that records each request with an unsafe method, and answers it with an `X-Request-Id`.

    Args:
        app: The application, the other layers included.
        audit: Takes the records.
        routes: Those of the application.
        exists: Whether the seed has a shoot with this namespace. Only then do attempts on it count by themselves:
            callers can invent any number of names, and hide an attempt in a flood of junk (threat T24).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        audit: AuditLog,
        routes: Sequence[BaseRoute] = (),
        exists: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._app = app
        self._audit = audit
        self._routes, self._exists = routes, exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        client, state = scope.get("client") or ("",), scope.setdefault("state", {})
        attempt = Attempt(uuid.uuid4().hex, scope["method"], scope["path"], client[0])
        attempt.claimed, state["audit"] = _claimed(scope), attempt

        async def seen(message: Message) -> None:
            if message["type"] == "http.response.start":
                attempt.status = message["status"]
                attempt.problem = state.get("problem", {}).get("type")
                name = (b"x-request-id", attempt.request.encode())
                message = {**message, "headers": [*message.get("headers", ()), name]}
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            caller = state.get("caller")
            attempt.caller = caller.name if isinstance(caller, Caller) else None
            call, namespace = self._aim(scope)
            known = namespace is not None and self._exists(namespace)
            if attempt.namespace is None:
                attempt.namespace = namespace
            self._audit.note(attempt, f"{call} {namespace}" if known else call)

    def _aim(self, scope: Scope) -> tuple[str, str | None]:
        """The call and namespace that a request is for, by method and path alone: a layer may refuse it unrouted."""
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return found["endpoint"].__name__, found["path_params"].get("namespace")
        return "", None


def _claimed(scope: Scope) -> str | None:
    """The name that the client claims for the person who uses it; the header has it percent-encoded, in UTF-8."""
    for name, value in scope["headers"]:
        if name == _CLAIMED:
            return unquote(value[:_CLAIM].decode("latin-1"), errors="replace").strip() or None
    return None
