"""The kubeconfig Secrets of the shoots, as gardenlet writes them: one for each route."""

from typing import Final

from app.core.model.shoots import Route
from app.simulation import manifests
from app.simulation.stage import GARDENLET, Stage
from app.simulation.store import Object, ObjectKey

NOWHERE: Final = "https://api.gone.invalid"
"""A server whose name has no address (RFC 2606)."""


class Kubeconfigs:
    """Writes what leads to a shoot."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def routes(self) -> tuple[Route, ...]:
        """Those that there is a Secret of."""
        return tuple(self._stage.secret_names)

    def key(self, namespace: str, route: Route) -> ObjectKey:
        """The Secret."""
        return ObjectKey("Secret", namespace, self._stage.secret_names[route])

    def content(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> bytes:
        """A kubeconfig; what is not given is right: with the newest token, to where the API server is."""
        shoot = self._stage.shoots[namespace]
        user = {"token": shoot.newest_token} if user is None else user
        url = server or self._stage.place.url(namespace, route)
        return manifests.kubeconfig(namespace, url, shoot.authority(route), user)

    def create(self, namespace: str, route: Route) -> None:
        """The Secret is there, and right."""
        body = manifests.secret(self.content(namespace, route))
        born = manifests.born(body, self._stage.clock.now())
        self._stage.store.create(self.key(namespace, route), born)

    def write(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> None:
        """The Secret gets another kubeconfig."""
        content = self.content(namespace, route, user=user, server=server)
        self._stage.write(self.key(namespace, route), manifests.secret(content), GARDENLET)

    def write_all(self, namespace: str) -> None:
        """Every Secret of the shoot says what is right now."""
        for route in self.routes:
            self.write(namespace, route)
