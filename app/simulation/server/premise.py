"""What stands behind one API server: the seed of a world, or one of its shoots."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from app.core.errors import ClusterError, Unauthorized
from app.core.model.shoots import Route
from app.simulation.builders import World
from app.simulation.deletion import DeleteOptions, DeletionState, delete
from app.simulation.identities import OPERATOR
from app.simulation.network import SEED
from app.simulation.server.catalog import SEED_RESOURCES, SHOOT_RESOURCES, Catalog
from app.simulation.server.streams import StoreWatch
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey
from app.simulation.traffic import Host, SimulatedRequest

PROBE: Final = "dependency-watchdog-probe"
"""The user of a shoot's token."""
_NOT_IN_BOOKS: Final = frozenset({"Lease", "Event"})


class Premise:
    """The store, the users, the rights and the faults behind one API server."""

    def __init__(
        self,
        world: World,
        shoot: ShootServer | None,
        route: Route,
        users: Mapping[str, str],
        watch_delay: float,
    ) -> None:
        """Has a shoot by a route, or None: the seed.

        Args:
            world: where it is.
            shoot: which one.
            route: leads to its server.
            users: those of the seed, by their tokens.
            watch_delay: seconds from a change to its delivery by a watch.
        """
        self.name, self.route = SEED if shoot is None else shoot.namespace, route
        self.host = Host.SEED if shoot is None else Host.SHOOT
        self.store, self.api = (
            (world.store, world.api) if shoot is None else (shoot.store, shoot.api)
        )
        self.catalog = Catalog(SEED_RESOURCES if shoot is None else SHOOT_RESOURCES, self.store)
        self.clock, self.identities = world.clock, world.identities
        self.watch_delay = watch_delay
        self._world, self._shoot, self._users = world, shoot, users

    def advance(self) -> None:
        """Advances what is behind the server to now, before it is read."""
        if self._shoot is not None:
            self._shoot.advance()

    def user_of(self, token: str) -> str:
        """Returns the user of a token; raises Unauthorized if the token is invalid."""
        if self._shoot is not None and self._shoot.accepts(token):
            return PROBE
        if self._shoot is not None or token not in self._users:
            raise Unauthorized("Unauthorized", status=401)
        return self._users[token]

    def allowed(self, user: str, attributes: Mapping[str, str]) -> bool:
        """Returns whether a user has the permission in the attributes of a SelfSubjectAccessReview."""
        asked = attributes.get
        resource = "/".join(filter(None, (asked("resource", ""), asked("subresource", ""))))
        verb = asked("verb", "")
        if self._shoot is not None:
            return True
        if self.api.forbids(SimulatedRequest(Host.SEED, verb, resource)):
            return False
        right = (verb, asked("group", ""), resource, asked("name", ""))
        denied = {(each.verb, each.group, each.resource, each.name) for each in self._world.denied}
        return user == OPERATOR or right not in denied

    def wrote(self, at: float, obj: Object, patch: Object, by: str, verb: str) -> None:
        """Records a write of a client to the seed."""
        if self._shoot is None and obj["kind"] not in _NOT_IN_BOOKS:
            self._world.journal.enter(at, obj, patch, by, verb)

    def delete(self, key: ObjectKey, user: str, options: DeleteOptions) -> DeletionState:
        """Deletes an object in the name of a user; raises NotFound and Conflict."""
        if self._shoot is None:
            return self._world.seed_pods.delete(key, user, options)
        return delete(self.store, key, self.clock.now(), options)

    # Faults of the seed's watches and dependents.

    def stalled(self, kind: str) -> bool:
        """Returns whether watches of a kind are stalled, so that they neither deliver nor end."""
        return self._shoot is None and self._world.watches.stalled(kind)

    def serving(self, kind: str, stream: StoreWatch) -> AbstractContextManager[None]:
        """Is entered while a watch of a kind is open."""
        return nullcontext() if self._shoot else self._world.watches.serving(kind, stream)

    def unavailable(self, kind: str, name: str) -> ClusterError | None:
        """Returns the error that a fault makes of requests for a kind and a name; None if there is none."""
        found = () if self._shoot else self._world.unavailable.items()
        return next((error for ref, error in found if (ref.kind, ref.name) == (kind, name)), None)
