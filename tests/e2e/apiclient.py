"""A client of the REST API: one caller, who remembers all that he was told."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

Json = dict[str, Any]

_LIMIT = aiohttp.ClientTimeout(total=5)
API = "/api/v1/"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: Json
    """Empty where the answer is not JSON."""

    @property
    def problem(self) -> str:
        """The last part of the problem's type; empty where it is none."""
        return str(self.body.get("type") or "").rpartition(":")[2]


class ApiClient:
    """The API of one instance, as one caller.

    Args:
        url: where it is.
        token: what the caller sends; nothing where there is none.
        ca: the only authority that vouches for the server, as PEM.
        heard: where the answers go as text, headers included; of its own, unless given.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: bytes | None = None,
        heard: list[str] | None = None,
    ) -> None:
        self.url, self._token, self._ca = url, token, ca
        self.heard: list[str] = [] if heard is None else heard
        self._context = True if ca is None else ssl.create_default_context(cadata=ca.decode())

    def as_caller(self, token: str | None) -> "ApiClient":
        """The same instance as somebody else; the answers go to the same place."""
        return ApiClient(self.url, token=token, ca=self._ca, heard=self.heard)

    async def get(self, path: str) -> Answer:
        """GET of a path below `/api/v1/`, or of a whole one."""
        return await self.call("GET", path)

    async def put(self, path: str, body: Json) -> Answer:
        """PUT."""
        return await self.call("PUT", path, body)

    async def post(self, path: str, body: Json | None = None) -> Answer:
        """POST."""
        return await self.call("POST", path, body)

    async def delete(self, path: str) -> Answer:
        """DELETE."""
        return await self.call("DELETE", path)

    async def call(self, method: str, path: str, body: Json | None = None) -> Answer:
        """Any call; of an answer that does not end, only its head is read."""
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        where = self.url + (path if path.startswith("/") else API + path)
        async with (
            aiohttp.ClientSession(timeout=_LIMIT, trust_env=False) as session,
            session.request(method, where, json=body, headers=headers, ssl=self._context) as answer,
        ):
            endless = answer.content_type == "text/event-stream"
            text = "" if endless else await answer.text()
            self.heard.append(f"{dict(answer.headers)}\n{text}")
            found = await answer.json(content_type=None) if _is_json(answer) else {}
            return Answer(answer.status, dict(answer.headers), found)


def _is_json(answer: aiohttp.ClientResponse) -> bool:
    return answer.content_type.rpartition("+")[2].endswith("json")
