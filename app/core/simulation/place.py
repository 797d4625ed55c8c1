"""Where the API servers of a world can be reached, and who vouches for them."""

from itertools import count
from typing import Final, Protocol

SEED: Final = "seed"
"""The name of the seed's own API server; those of shoots have the name of their namespace."""


class Place(Protocol):
    """What the API servers of a world need of the outside."""

    def url(self, name: str) -> str:
        """Where the API server of this name is: the same whenever it is asked for."""
        ...

    def authority(self, name: str) -> str:
        """A new certificate authority for it, each time another one: what its clients are to trust."""
        ...

    def show(self, name: str, ca: str) -> None:
        """The API server of this name has a certificate of this authority from now on, as after a restart with it."""
        ...


class Nowhere:
    """Nothing is listening: the world is used through its ports, and an authority is a mere name."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def url(self, name: str) -> str:
        """The name that Gardener gives the Service."""
        return f"https://kube-apiserver.{name}.svc"

    def authority(self, name: str) -> str:
        """A name that no other authority has."""
        return f"authority {next(self._numbers)} of {name}"

    def show(self, name: str, ca: str) -> None:
        """Nobody looks."""
