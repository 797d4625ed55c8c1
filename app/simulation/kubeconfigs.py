"""The kubeconfig Secrets of shoots, one for each route, written like gardenlet's."""

from typing import Final

from app.core.model.shoots import Route
from app.simulation import manifests
from app.simulation.stage import GARDENLET, Stage
from app.simulation.store import Object, ObjectKey

NOWHERE: Final = "https://api.gone.invalid"
"""A server whose name cannot be resolved (RFC 2606)."""


class Kubeconfigs:
    """Writes the kubeconfig Secrets of shoots."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes that have a Secret."""
        return tuple(self._stage.secret_names)

    def key(self, namespace: str, route: Route) -> ObjectKey:
        """Returns the key of a route's Secret."""
        return ObjectKey("Secret", namespace, self._stage.secret_names[route])

    def content(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> bytes:
        """Builds a kubeconfig; arguments that are not given default to correct values, such as the newest token."""
        shoot = self._stage.shoots[namespace]
        user = {"token": shoot.newest_token} if user is None else user
        url = server or self._stage.place.url(namespace, route)
        return manifests.kubeconfig(namespace, url, shoot.authority(route), user)

    def create(self, namespace: str, route: Route) -> None:
        """Creates the Secret with a correct kubeconfig."""
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
        """Writes another kubeconfig into the Secret."""
        content = self.content(namespace, route, user=user, server=server)
        self._stage.write(self.key(namespace, route), manifests.secret(content), GARDENLET)

    def write_all(self, namespace: str) -> None:
        """Writes a correct kubeconfig into each Secret of the shoot."""
        for route in self.routes:
            self.write(namespace, route)
