"""A tiny client of an API server: what the tests do as an administrator, and what other controllers do."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

Json = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES = "/api/v1/nodes"
CLUSTERS = "/apis/extensions.gardener.cloud/v1alpha1/clusters"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def deployments(namespace: str) -> str:
    """The collection of Deployments of a namespace."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def machines(namespace: str) -> str:
    """The collection of Machines of a namespace."""
    return f"/apis/machine.sapcloud.io/v1alpha1/namespaces/{namespace}/machines"


def people(plural: str, namespace: str = "") -> str:
    """The collection of `pauses` or `scalerequests` of a namespace, or of all."""
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/dependency-watchdog.gardener.cloud/v1alpha1{inside}/{plural}"


def scalers(namespace: str) -> str:
    """The collection of Scalers, a kind of our own with a `scale` subresource."""
    return f"/apis/example.org/v1/namespaces/{namespace}/scalers"


def secrets(namespace: str) -> str:
    """The collection of Secrets of a namespace."""
    return f"/api/v1/namespaces/{namespace}/secrets"


class ApiError(Exception):
    """An answer that is not 2xx."""

    def __init__(self, method: str, path: str, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{method} {path}: {status} {text[:300]}")


class Api:
    """One API server, as one user; use it as a context manager."""

    def __init__(self, url: str, ca: bytes, token: str, *, timeout: float = 15) -> None:
        self.url = url
        """Where it is; a server that moves says so here."""
        self.ca = ca
        self._token = token
        context = ssl.create_default_context(cadata=ca.decode())
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            connector=aiohttp.TCPConnector(ssl=context, limit=40),
            timeout=aiohttp.ClientTimeout(total=timeout),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._session.close()

    def as_user(self, token: str) -> "Api":
        """The same server as somebody else; to be closed by the caller."""
        return Api(self.url, self.ca, token)

    async def get(self, path: str) -> Json:
        """GET; the caller may add a query to the path."""
        return await self._call("GET", path)

    async def find(self, path: str) -> Json | None:
        """GET; None where there is none."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def items(self, path: str) -> list[Json]:
        """GET of a collection."""
        return (await self.get(path))["items"] or []

    async def create(self, path: str, body: Json) -> Json:
        """POST to a collection."""
        return await self._call("POST", path, body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Json:
        """A merge patch; of an object, or of its `/status` or `/scale`."""
        kind = "application/merge-patch+json"
        return await self._call("PATCH", path, body, headers={"Content-Type": kind})

    async def delete(self, path: str) -> None:
        """DELETE of an object or a whole collection, which may take its time; what is gone already is fine."""
        try:
            await self._call("DELETE", path, timeout=aiohttp.ClientTimeout(total=60))
        except ApiError as error:
            if error.status != 404:
                raise

    async def answers(self, path: str = "/readyz") -> bool:
        """Whether the server answers 200 here, within a second."""
        try:
            async with asyncio.timeout(1), self._session.get(self.url + path) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def refusal(self, method: str, path: str) -> int:
        """The status with which a request is refused; 0 where it is not."""
        try:
            await self._call(method, path)
        except ApiError as error:
            return error.status
        return 0

    async def watch(self, path: str, seen: Callable[[str, Json], None]) -> None:
        """Hands every event of a watch to `seen`, beginning with what is there; returns when the server ends it."""
        listing = await self.get(path)
        for item in listing["items"] or []:
            seen("ADDED", item)
        version = listing["metadata"]["resourceVersion"]
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "600"}
        unlimited = aiohttp.ClientTimeout(total=None)
        where = self.url + path
        async with self._session.get(where, params=query, timeout=unlimited) as stream:
            async for event in _events(stream.content):
                seen(event["type"], event["object"])

    async def follow(
        self,
        path: str,
        seen: Callable[[str, Json], None],
        begins: Callable[[], None] = lambda: None,
    ) -> None:
        """Hands all that happens in a collection to `seen`, for ever; lists anew (`begins`) where a watch has ended."""
        while True:
            begins()
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ApiError):
                await self.watch(path, seen)
            await asyncio.sleep(0.2)

    async def token_of(
        self, namespace: str, account: str, *, audience: str | None = None, seconds: int = 3600
    ) -> str:
        """A token of a ServiceAccount, for the API server itself unless an audience is given."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec = {"expirationSeconds": seconds} | (
            {} if audience is None else {"audiences": [audience]}
        )
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self.create(path, body))["status"]["token"])

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Json:
        where = self.url + path
        async with self._session.request(
            method, where, json=body, headers=headers, **more
        ) as answer:
            if answer.status >= 300:
                raise ApiError(method, path, answer.status, await answer.text())
            found: Json = await answer.json()
            return found


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[Json]:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")  # lines may be longer than the reader's limit
        for line in lines:
            yield json.loads(line)


async def all_of(jobs: Iterable[Any], at_once: int = 10) -> None:
    """Awaits all coroutines, so many at a time."""
    gate = asyncio.Semaphore(at_once)

    async def gated(job: Any) -> None:
        async with gate:
            await job

    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(gated(job))
