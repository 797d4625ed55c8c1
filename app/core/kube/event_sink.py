"""Creates Kubernetes Events (`ports.EventSink`)."""

from typing import Final

from app.core.errors import Forbidden, NotFound
from app.core.kube.client import ApiRequest
from app.core.kube.failures import RequestedRight
from app.core.kube.resources import EVENTS
from app.core.kube.seed_api import WITHIN, Budget, SeedApi

# Maximum seconds for which an Event waits for the requests of scale-downs to end. An outage of 300 shoots keeps the
# event loop busy for a second; sending Events at the same time made the first writes three times as late.
_GIVES_WAY: Final = 1.0
# A 403 with these words is not a missing right: the namespace is being deleted. The reason follows the name of the
# namespace, where a long message is cut off.
_TERMINATING: Final = "unable to create new content in namespace"


class KubeEvents:
    """Creates Events in the seed at the caller's rate, giving way to the requests of scale-downs."""

    def __init__(self, api: SeedApi) -> None:
        self._api = api

    async def emit(self, namespace: str, event: dict[str, object]) -> None:
        """Creates `event`, an `events.k8s.io/v1` object, in this namespace.

        Raises:
            Throttled: the seed asks for a pause.
            Forbidden: the right is missing.
            NotFound: the namespace is being deleted, or gone.
            ClusterError: the Event was not created.
        """
        request = ApiRequest(
            RequestedRight("create", EVENTS.plural, namespace),
            EVENTS.path(namespace),
            WITHIN,
            method="POST",
            body=event,
        )
        await self._api.calm(_GIVES_WAY)
        try:
            await self._api.call(request, _nothing, Budget.PACED)
        except Forbidden as refusal:
            if _TERMINATING in str(refusal):
                raise NotFound(str(refusal), status=refusal.status) from refusal
            raise


def _nothing(_: bytes | bytearray) -> None:
    """Ignores the answer."""
