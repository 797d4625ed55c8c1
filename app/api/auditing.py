"""Audit: each request that would change something leaves a record, whether performed, refused or failed (raw ASGI).

The middleware is the outermost layer, so that it sees what every other layer refuses, and the answer as the caller got
it. A route adds what only it knows (the state before and after, the caller's reason) to the `AuditDraft`.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
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


@dataclass(slots=True)
class AuditDraft:
    """What a route contributes to the record of its request."""

    action: str = ""
    """Such as `pause` or `scale`; empty: the request was refused before it reached the route."""
    namespace: str | None = None
    target: str | None = None
    """The part of the shoot: `Deployment/kube-controller-manager`, an operation, a service."""
    reason: str | None = None
    """The reason that the caller gave."""
    before: Any = None
    after: Any = None


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
) -> AuditDraft:
    """The draft of this request, with what its route knows before it does anything; what is only planned is a plan.

    For a request without audit, one that is thrown away.
    """
    found = getattr(connection.state, "audit", None)
    draft = found if isinstance(found, AuditDraft) else AuditDraft()
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
        draft, request = AuditDraft(), uuid.uuid4().hex
        scope.setdefault("state", {})["audit"] = draft
        status: int | None = None

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                name = (b"x-request-id", request.encode())
                message = {**message, "headers": [*message.get("headers", ()), name]}
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            call, namespace = self._aim(scope)
            known = namespace is not None and self._exists(namespace)
            alike = f"{call} {namespace}" if known else call
            if draft.namespace is None:
                draft.namespace = namespace
            self._audit.note(_attempt(scope, draft, request, status), alike)

    def _aim(self, scope: Scope) -> tuple[str, str | None]:
        """The call and namespace that a request is for, by method and path alone: a layer may refuse it unrouted."""
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return found["endpoint"].__name__, found["path_params"].get("namespace")
        return "", None


def _attempt(scope: Scope, draft: AuditDraft, request: str, status: int | None) -> Attempt:
    caller = scope["state"].get("caller")
    return Attempt(
        request=request,
        method=scope["method"],
        path=scope["path"],
        peer=(scope.get("client") or ("",))[0],
        status=status,
        problem=None if status is None else scope["state"].get("problem", {}).get("type"),
        caller=caller.name if isinstance(caller, Caller) else None,
        claimed=_claimed(scope),
        action=draft.action,
        namespace=draft.namespace,
        target=draft.target,
        reason=draft.reason,
        before=draft.before,
        after=draft.after,
    )


def _claimed(scope: Scope) -> str | None:
    """The name that the client claims for the person who uses it; the header has it percent-encoded, in UTF-8."""
    for name, value in scope["headers"]:
        if name == _CLAIMED:
            return unquote(value[:_CLAIM].decode("latin-1"), errors="replace").strip() or None
    return None
