"""What one API server is made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.core.clock import Clock
from app.core.model.shoots import Route
from app.simulation.deletion import DeleteOptions, DeletionState
from app.simulation.identities import SimulatedIdentities
from app.simulation.server.catalog import Catalog
from app.simulation.server.executing import SimulatedCommands
from app.simulation.store import ObjectKey, Store
from app.simulation.traffic import ApiServer, Host, Write


@dataclass(frozen=True, slots=True)
class Premise:
    """What one API server is made of."""

    name: str
    """The control-plane namespace of a shoot; `seed` for the seed."""
    host: Host
    clock: Clock
    store: Store
    api: ApiServer
    catalog: Catalog
    version: str
    """gitVersion."""
    user_of: Callable[[str], str]
    """The user that a token names; raises Unauthorized."""
    allowed: Callable[[str, Mapping[str, str]], bool]
    """Whether a user may do what the attributes of a SelfSubjectAccessReview say."""
    wrote: Callable[[Write], None]
    delete: Callable[[ObjectKey, str, DeleteOptions], DeletionState]
    """Deletes in somebody's name; raises NotFound and Conflict."""
    route: Route = Route.INTERNAL
    """How those come who ask here."""
    identities: SimulatedIdentities = field(default_factory=SimulatedIdentities)
    """Whom a TokenReview and a SubjectAccessReview know."""
    commands: SimulatedCommands = field(default_factory=SimulatedCommands)
    """What can be run in containers."""
    stalled: Callable[[str], bool] = lambda _: False
    """Whether watches of a kind pass nothing on now, their ends included."""
    advance: Callable[[], None] = lambda: None
    """Lets happen what is due, before anything is seen."""
    clock_off: Callable[[], float] = lambda: 0.0
    """Seconds by which its own clock is ahead."""
