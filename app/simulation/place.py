"""Where the API servers of a world can be reached, and who vouches for them."""

from itertools import count
from typing import Final, Protocol

from app.core.model.shoots import Route

SEED: Final = "seed"
"""The name of the seed's own API server; those of shoots have the name of their namespace."""


class ServerPlace(Protocol):
    """What the API servers of a world need of the outside."""

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """Where the API server of this name is by this route: the same whenever it is asked for."""
        ...

    def authority(self, name: str) -> str:
        """A new certificate authority for it, each time another one: what its clients are to trust."""
        ...

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """From now on, as after a restart, who comes by this route sees a certificate of this authority."""
        ...


class Nowhere:
    """Nothing is listening: the world is used through its ports, and an authority is a mere name."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def url(self, name: str, route: Route = Route.INTERNAL) -> str:
        """The name that Gardener gives the Service, or the load balancer."""
        match route:
            case Route.INTERNAL:
                return f"https://kube-apiserver.{name}.svc"
            case Route.EXTERNAL:
                return f"https://api.{name}.example"

    def authority(self, name: str) -> str:
        """A name that no other authority has."""
        return f"authority {next(self._numbers)} of {name}"

    def show(self, name: str, ca: str, route: Route = Route.INTERNAL) -> None:
        """Nobody looks."""
