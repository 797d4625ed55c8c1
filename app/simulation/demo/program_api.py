"""A client of the program's REST API, which reads the state of its shoots."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from app.core.errors import WatchdogError, trimmed
from app.core.model.probing import ShootState, Verdict

_PAGE: Final = 500
# Seconds for one request.
_LIMIT: Final = 5.0


class NoDemoAnswer(WatchdogError):
    """The program did not answer, or gave an unexpected answer."""


class DemoLeases(msgspec.Struct, frozen=True):
    """The leases of the last successful probe."""

    candidates: int
    expired: int
    unknown: int
    as_of: str | None = msgspec.field(name="asOf", default=None)

    @property
    def fresh(self) -> int:
        """The number of those that are neither expired nor unknown."""
        return self.candidates - self.expired - self.unknown


class DemoProbe(msgspec.Struct, frozen=True, rename="camel"):
    """The last probe."""

    last_time: str | None
    would_be: Verdict | None
    """The verdict that it by itself would lead to."""


class ShootReport(msgspec.Struct, frozen=True):
    """The state of a shoot as the program reports it."""

    namespace: str
    state: ShootState
    reason: str
    message: str
    probe: DemoProbe
    leases: DemoLeases | None
    """None if none were read, as in endpoint mode."""

    @property
    def old(self) -> bool:
        """Whether a later probe failed to read the leases."""
        return self.leases is not None and self.leases.as_of not in {None, self.probe.last_time}

    @property
    def has_probed(self) -> bool:
        """Whether the shoot has been probed."""
        return self.leases is not None or self.probe.would_be not in {None, Verdict.HOLD}


class _Metadata(msgspec.Struct):
    next: str | None = msgspec.field(name="continue")


class _Page(msgspec.Struct):
    items: list[ShootReport]
    metadata: _Metadata


def session(server: str) -> aiohttp.ClientSession:
    """Returns what `read_shoots` asks the program at this address with; to be closed."""
    timeout = aiohttp.ClientTimeout(total=_LIMIT)
    return aiohttp.ClientSession(server, timeout=timeout, trust_env=False)


async def read_shoots(program: aiohttp.ClientSession) -> Mapping[str, ShootReport]:
    """Returns all shoots by namespace, with one request for each 500.

    Raises:
        NoDemoAnswer: there is no usable answer.
    """
    found: dict[str, ShootReport] = {}
    token: str | None = ""
    while token is not None:
        page = await _page(program, token)
        found.update((shoot.namespace, shoot) for shoot in page.items)
        token = page.metadata.next
    return found


async def _page(program: aiohttp.ClientSession, token: str) -> _Page:
    query = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
    try:
        async with program.get("/api/v1/shoots", params=query, allow_redirects=False) as response:
            status, body = response.status, await response.read()
        if status != HTTPStatus.OK:
            raise NoDemoAnswer(f"it answers {status}")
        return msgspec.json.decode(body, type=_Page)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise NoDemoAnswer(trimmed(f"it does not answer: {str(error) or 'too slow'}")) from error
    except msgspec.DecodeError as error:
        raise NoDemoAnswer(trimmed(f"its answer cannot be read: {error}")) from error
