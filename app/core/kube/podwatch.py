"""The pods of one namespace, for as long as a recovery lasts (`weeding_ports.PodWatch`)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from app.core.errors import Forbidden, Unauthorized
from app.core.kube.client import Decode, Request
from app.core.kube.reflector import Reflector
from app.core.kube.seed_api import Budget, SeedApi
from app.core.model.pods import PodView
from app.core.weeding_ports import Admission

R = TypeVar("R")


class AdmittedRequests:
    """Requests on a budget of whoever asks (`reflector.Requests`): each waits until it is admitted."""

    def __init__(self, api: SeedApi, admitted: Admission) -> None:
        self._api, self._admitted = api, admitted

    async def call(self, request: Request, decode: Decode[R]) -> R:
        """Asks, and decodes the answer."""
        await self._admitted()
        return await self._api.call(request, decode, Budget.PACED)

    @asynccontextmanager
    async def watch(
        self, request: Request, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch; gives its lines as they come."""
        await self._admitted()
        opened = self._api.watch(request, silence=silence, budget=Budget.PACED)
        async with opened as lines:
            yield lines


class KubePodWatch:
    """Reflects the pods of one namespace until it is cancelled."""

    def __init__(self, namespace: str, reflector: Reflector[PodView]) -> None:
        self._namespace, self._reflector = namespace, reflector

    @property
    def synced(self) -> bool:
        """Whether they have been listed."""
        return self._reflector.state.synced

    @property
    def trouble(self) -> str | None:
        """What it suffers from; None while all is well."""
        return self._reflector.trouble

    def pods(self) -> Mapping[str, PodView]:
        """The pods by name, as they were last seen; of this moment, whatever comes later."""
        return dict(self._reflector.of(self._namespace))

    async def run(self) -> None:
        """Lists once, then watches, until it is cancelled.

        Raises:
            Forbidden: the right to list or to watch pods is missing, or we are not who we say that we are.
        """
        try:
            await self._reflector.run()
        except Unauthorized as error:
            raise Forbidden(str(error), status=error.status) from error
