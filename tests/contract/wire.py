"""Plain HTTPS requests: what a server says word by word, before any client has understood it."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        """Its body as JSON data."""
        return json.loads(self.text)


class Wire:
    """One API server and one user."""

    def __init__(self, port: int, ca: str, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._session = aiohttp.ClientSession(
            base_url=f"https://127.0.0.1:{port}",
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=ca)),
            timeout=aiohttp.ClientTimeout(total=10),
            trust_env=False,
        )

    async def close(self) -> None:
        """Closes its connections."""
        await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        """Asks; `body` is JSON data, or bytes as they are; `kind` and `accept` are media types."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Accept": accept} | ({} if data is None else {"Content-Type": kind})
        sent = None if data is None else io.BytesIO(data)  # aiohttp warns of long bytes
        async with self._session.request(
            method, path, data=sent, headers=headers, allow_redirects=False
        ) as answer:
            return Answer(answer.status, answer.headers.copy(), await answer.text())

    async def get(self, path: str, *, accept: str = "application/json") -> Answer:
        """GET."""
        return await self.ask("GET", path, accept=accept)

    async def watch(self, path: str, *, accept: str = "application/json") -> AsyncIterator[Any]:
        """The events of a watch, as JSON data, until the server ends it."""
        async with self._session.get(path, headers={"Accept": accept}) as stream:
            assert stream.status == 200, await stream.text()
            rest = b""
            async for chunk in stream.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
            assert rest == b"", "the stream ends after a line"

    async def events(self, path: str, many: int, *, accept: str = "application/json") -> list[Any]:
        """The first events of a watch."""
        found: list[Any] = []
        async with asyncio.timeout(8):
            async for event in (stream := self.watch(path, accept=accept)):
                found.append(event)
                if len(found) == many:
                    break
            await stream.aclose()  # type: ignore[attr-defined]  # an async generator
        return found


def failure(answer: Answer) -> tuple[int, str]:
    """Status and reason of a refusal, which must be a Status object that says so in full."""
    body = answer.json
    assert (body["kind"], body["apiVersion"]) == ("Status", "v1"), body
    assert body["metadata"].keys() <= {"continue"}, body
    assert (body["status"], body["code"]) == ("Failure", answer.status), body
    assert body["message"], body
    assert answer.headers["Content-Type"] == "application/json"
    return answer.status, body["reason"]
