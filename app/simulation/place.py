"""Where the API servers of a world listen, and who signs their certificates."""

from itertools import count
from typing import Final, Protocol

from app.core.model.shoots import Route

SEED: Final = "seed"
"""The name of the seed's API server; that of a shoot is named like its namespace."""


class ServerPlace(Protocol):
    """Provides URLs and certificate authorities for the API servers of a world."""

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Returns the URL of an API server for a route; it never changes."""
        ...

    def authority(self, name: str) -> str:
        """Creates a new certificate authority for an API server, which its clients have to trust."""
        ...

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """Presents a certificate of `authority` on a route from now on, as after a restart of the server."""
        ...


class Nowhere:
    """A place where nothing listens: the world is used through its Python ports, and an authority is just a name."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Returns the name that Gardener gives the Service, or the load balancer."""
        match route:
            case Route.INTERNAL:
                return f"https://kube-apiserver.{name}.svc"
            case Route.EXTERNAL:
                return f"https://api.{name}.example"

    def authority(self, name: str) -> str:
        """Returns a unique name."""
        return f"authority {next(self._numbers)} of {name}"

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """Does nothing: there are no TLS connections."""
