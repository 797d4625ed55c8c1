"""Kubernetes Events, written where there is room for them (`ports.EventSink`)."""

from typing import Final

from app.core.errors import Forbidden, NotFound
from app.core.kube.client import Request
from app.core.kube.failures import Asked
from app.core.kube.resources import EVENTS
from app.core.kube.seedapi import WITHIN, Budget, SeedApi

_TERMINATING: Final = "unable to create new content in namespace"
"""A 403 with these words is no missing right: the namespace is being deleted.  Why is said after its name, where a long
message is cut off."""


class KubeEvents:
    """Creates Events in the seed, with what the request budget has to spare."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api

    async def emit(self, namespace: str, event: dict[str, object]) -> None:
        """Creates `event`, an `events.k8s.io/v1` object, in this namespace.

        Raises:
            Throttled: the budget is used up, or the seed asks for a pause.
            Forbidden: we may not.
            NotFound: the namespace is being deleted, or gone.
            ClusterError: it could not be created.
        """
        request = Request(
            Asked("create", EVENTS.plural, namespace),
            EVENTS.path(namespace),
            WITHIN,
            method="POST",
            body=event,
        )
        try:
            await self._api.call(request, _nothing, Budget.SPARE)
        except Forbidden as refusal:
            if _TERMINATING in str(refusal):
                raise NotFound(str(refusal), status=refusal.status) from refusal
            raise


def _nothing(_: bytes | bytearray) -> None:
    """What is answered does not matter."""
