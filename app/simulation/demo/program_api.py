"""A client of the program's REST API, which reads the state of its shoots."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec

from app.core.errors import WatchdogError, trimmed
from app.core.model.probing import ShootState, Verdict

_PAGE: Final = 500
# Seconds for one request.
_LIMIT: Final = 5.0


class NoDemoAnswer(WatchdogError):
    """The program did not answer, or gave an unexpected answer."""


@dataclass(frozen=True, slots=True)
class DemoLeases:
    """The leases of the last successful probe."""

    fresh: int
    expired: int
    unknown: int

    @property
    def of(self) -> int:
        """The number of leases."""
        return self.fresh + self.expired + self.unknown


@dataclass(frozen=True, slots=True)
class ShootReport:
    """The state of a shoot as the program reports it."""

    state: ShootState
    reason: str
    message: str
    leases: DemoLeases | None = None
    """None if none were read, as in endpoint mode."""
    would_be: Verdict | None = None
    """The verdict that the last probe by itself would lead to."""
    old: bool = False
    """Whether a later probe failed to read the leases."""

    @property
    def has_probed(self) -> bool:
        """Whether the shoot has been probed."""
        return self.leases is not None or self.would_be not in {None, Verdict.HOLD}


class _Leases(msgspec.Struct):
    candidates: int
    expired: int
    unknown: int
    as_of: str | None = msgspec.field(name="asOf", default=None)


class _Probe(msgspec.Struct, rename="camel"):
    last_time: str | None
    would_be: Verdict | None


class _DemoShoot(msgspec.Struct):
    namespace: str
    state: ShootState
    reason: str
    message: str
    probe: _Probe
    leases: _Leases | None


class _Metadata(msgspec.Struct):
    next: str | None = msgspec.field(name="continue")


class _Page(msgspec.Struct):
    items: list[_DemoShoot]
    metadata: _Metadata


class DemoClient:
    """Calls the program's REST API."""

    def __init__(self, base: str) -> None:
        self._base = base
        timeout = aiohttp.ClientTimeout(total=_LIMIT)
        self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def shoots(self) -> Mapping[str, ShootReport]:
        """Returns all shoots by namespace, with one request for each 500.

        Raises:
            NoAnswer: there is no usable answer.
        """
        found: dict[str, ShootReport] = {}
        token: str | None = ""
        while token is not None:
            page = await self._page(token)
            found.update((shoot.namespace, _said(shoot)) for shoot in page.items)
            token = page.metadata.next
        return found

    async def _page(self, token: str) -> _Page:
        query = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        try:
            url = f"{self._base}/api/v1/shoots"
            async with self._session.get(url, params=query, allow_redirects=False) as response:
                status, body = response.status, await response.read()
            if status != HTTPStatus.OK:
                raise NoDemoAnswer(f"it answers {status}")
            return msgspec.json.decode(body, type=_Page)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoDemoAnswer(
                trimmed(f"it does not answer: {str(error) or 'too slow'}")
            ) from error
        except msgspec.DecodeError as error:
            raise NoDemoAnswer(trimmed(f"its answer cannot be read: {error}")) from error


def _said(shoot: _DemoShoot) -> ShootReport:
    leases, would_be = shoot.leases, shoot.probe.would_be
    if leases is None:
        return ShootReport(shoot.state, shoot.reason, shoot.message, None, would_be)
    fresh = leases.candidates - leases.expired - leases.unknown
    seen = DemoLeases(fresh, leases.expired, leases.unknown)
    old = leases.as_of not in {None, shoot.probe.last_time}
    return ShootReport(shoot.state, shoot.reason, shoot.message, seen, would_be, old)
