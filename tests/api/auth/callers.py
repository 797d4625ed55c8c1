"""Requests to an application behind a gate, and the gates of each mode."""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive

from app.api.auth.gate import AccessGate, open_gate
from app.core.clock import Clock
from app.core.config.flags import read_flags
from app.core.config.settings import ProberSettings
from app.core.metrics import Metrics
from tests.api.fakes import application, context

FILED = {"vera": "viewer", "otto": "operator", "ada": "admin"}
"""Those of the token file, and their roles; the token of each is `NAMEs-token`."""


def token_file(folder: Path) -> Path:
    path = folder / "tokens.yaml"
    entries = [
        {
            "name": name,
            "role": role,
            "sha256": hashlib.sha256(f"{name}s-token".encode()).hexdigest(),
        }
        for name, role in FILED.items()
    ]
    path.write_text(json.dumps(entries))
    path.chmod(0o600)
    return path


async def gate_of(*words: str, reviewer: Any = None, metrics: Metrics | None = None) -> AccessGate:
    """The gate of a prober with these flags."""
    settings = read_flags(ProberSettings, ("--config-file=f", *words), {}, "dwd").settings
    return await open_gate(settings, reviewer, Clock.of_loop(), metrics or Metrics())


def api_behind(gate: AccessGate, metrics: Metrics | None = None, **fakes: Any) -> ASGIApp:
    """The whole application of the API's port behind `gate`."""
    given, now = context(authority=gate.authority, **fakes), Clock.of_loop().now
    return application(given, now=now, metrics=metrics, authentication=gate.around_api)


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = json.loads(self.body)
        return found


class BodyRead(Exception):
    """Somebody has read a body that was to be left alone."""


async def ask(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    token: str | None = None,
    body: bytes | None = b"",
    headers: Mapping[str, str] | None = None,
    peer: str = "10.0.0.9",
) -> Answer:
    """One request; with `body` None, whoever reads it raises BodyRead."""
    given = {"host": "localhost", **(headers or {})}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    if body:
        given |= {"content-type": "application/json", "content-length": str(len(body))}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": (peer, 1),
        "server": ("10.0.0.1", 8080),
        "state": {},
    }
    sent: list[Any] = []
    await app(scope, _receiving(body), partial(_note, sent))
    start = sent[0]
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    content = b"".join(each.get("body", b"") for each in sent[1:])
    return Answer(start["status"], found, content, scope["state"])


def _receiving(body: bytes | None) -> Receive:
    """The body, and nothing after it: the client waits for its answer."""
    given = False

    async def receive() -> dict[str, Any]:
        nonlocal given
        if body is None:
            raise BodyRead
        if given:
            await asyncio.get_running_loop().create_future()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _note(sent: list[Any], message: Any) -> None:
    sent.append(message)
