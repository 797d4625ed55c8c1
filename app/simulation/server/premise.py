"""The parts that one simulated API server is built from."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.model.shoots import Route
from app.simulation.deletion import DeleteOptions, DeletionState
from app.simulation.identities import SimulatedIdentities
from app.simulation.server.catalog import Catalog
from app.simulation.server.executing import SimulatedCommands
from app.simulation.store import ObjectKey, Store
from app.simulation.traffic import ApiServer, Host, Write
from app.simulation.watches import Stream


@dataclass(frozen=True, slots=True)
class Premise:
    """The store, the functions and the properties of one API server."""

    name: str
    """The control-plane namespace of a shoot; `seed` for the seed."""
    host: Host
    clock: Clock
    store: Store
    api: ApiServer
    catalog: Catalog
    version: str
    """`gitVersion` of `/version`."""
    user_of: Callable[[str], str]
    """Returns the user of a token; raises Unauthorized if the token is invalid."""
    allowed: Callable[[str, Mapping[str, str]], bool]
    """Returns whether a user has the permission in the attributes of a SelfSubjectAccessReview."""
    wrote: Callable[[Write], None]
    delete: Callable[[ObjectKey, str, DeleteOptions], DeletionState]
    """Deletes an object in the name of a user; raises NotFound and Conflict."""
    route: Route = Route.INTERNAL
    """The route that leads to this server."""
    identities: SimulatedIdentities = field(default_factory=SimulatedIdentities)
    """The identities and permissions behind TokenReviews and SubjectAccessReviews."""
    commands: SimulatedCommands = field(default_factory=SimulatedCommands)
    """The commands that can be run in containers."""
    stalled: Callable[[str], bool] = lambda _: False
    """Returns whether watches of a kind are stalled, so that they neither deliver nor end."""
    serving: Callable[[str, Stream], AbstractContextManager[None]] = lambda _kind, _stream: (
        nullcontext()
    )
    """Is entered while a watch of a kind is open."""
    unavailable: Callable[[str, str], ClusterError | None] = lambda _kind, _name: None
    """Returns the error that a fault makes of requests for a kind and a name; None if there is none."""
    watch_delay: float = 0.0
    """Seconds from a change to its delivery by a watch."""
    advance: Callable[[], None] = lambda: None
    """Advances the world to now, before the store is read."""
    clock_off: Callable[[], float] = lambda: 0.0
    """Returns the seconds by which the server's clock is ahead."""
