"""A real kube-apiserver that answers 429, by its own Priority and Fairness."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from yarl import URL

from tests.e2e.api import Api
from tests.e2e.processes import eventually

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
NAME = "none"
_HANGING = """POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r
Host: localhost\r
Authorization: Bearer {token}\r
Content-Type: application/json\r
Content-Length: 100\r
\r
"""


@asynccontextmanager
async def _occupying(api: Api, token: str) -> AsyncIterator[None]:
    """One request is being executed for as long as this lasts: the server waits for its body."""
    context, url = ssl.create_default_context(cadata=api.ca.decode()), URL(api.url)
    _, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
    writer.write(_HANGING.format(token=token).encode())
    await writer.drain()
    try:
        yield
    finally:
        writer.transport.abort()


@asynccontextmanager
async def throttling(api: Api, user: Api, token: str) -> AsyncIterator[None]:
    """The server has no share for anybody but its administrators: 429 for `user`.

    A request that finds its priority level idle is executed, whatever the level's share: so one that never ends comes
    first. One that came before the server knew of the level is on another: the next one is tried.
    """
    nothing = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {**nothing, "limitResponse": {"type": "Reject"}}
    level = {"metadata": {"name": NAME}, "spec": {"type": "Limited", "limited": limited}}
    everybody = {"kind": "Group", "group": {"name": "system:authenticated"}}
    anything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rules = {
        "subjects": [everybody],
        "resourceRules": [{**anything, "clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    schema = {
        "metadata": {"name": NAME},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": NAME},
            "rules": [rules],
        },
    }

    async def refused() -> bool:
        return await user.refusal("GET", "/version") == 429

    async def refused_while_occupied() -> bool:
        await occupied.enter_async_context(_occupying(api, token))
        await asyncio.sleep(
            0.1
        )  # it is on its way; a request that overtook it would have it refused
        return all([await refused() for _ in range(5)])

    async def heard() -> bool:
        return not await refused()

    await api.create(f"{FLOWS}/prioritylevelconfigurations", level)
    await api.create(f"{FLOWS}/flowschemas", schema)
    try:
        async with AsyncExitStack() as occupied:
            await eventually(refused_while_occupied, "requests are throttled", within=20, every=0.1)
            yield
    finally:
        await api.delete(f"{FLOWS}/flowschemas/{NAME}")
        await api.delete(f"{FLOWS}/prioritylevelconfigurations/{NAME}")
        await eventually(heard, "requests are no longer throttled", within=10, every=0.02)
