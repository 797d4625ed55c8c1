"""What can happen to one of our routes to a shoot's API server; its nodes have ways of their own.

`ShootFaults.path_cut` of all nodes is the load balancer: nodes and the external route lose it together.
"""

from dataclasses import replace

from app.core.model.shoots import Route
from app.simulation.kubeconfigs import NOWHERE, Kubeconfigs
from app.simulation.stage import Fault, Stage
from app.simulation.store import Object
from app.simulation.traffic import Loss, Trouble


class RouteFaults:
    """What can happen to our routes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kubeconfigs = Kubeconfigs(stage)

    def route_trouble(self, namespace: str, route: Route, trouble: Trouble) -> Fault:
        """Anything that a `Trouble` can say, for requests that come by this route."""
        api, limited = (
            self._stage.shoots[namespace].api,
            replace(trouble, routes=frozenset({route})),
        )
        api.begin(limited)
        return Fault(lambda: api.end(limited))

    def route_cut(self, namespace: str, route: Route, how: Loss = Loss.SWALLOWED) -> Fault:
        """Our way by this route is cut; the nodes have theirs."""
        return self.route_trouble(namespace, route, Trouble(lost=how))

    def page_instead(
        self, namespace: str, status: int = 503, *, route: Route = Route.EXTERNAL
    ) -> Fault:
        """Something before the API server answers by itself, with an HTML page of this status."""
        return self.route_trouble(namespace, route, Trouble(page=status))

    def credentials_wrong(self, namespace: str, route: Route) -> Fault:
        """The Secret of this route has a token that nobody accepts: 401."""
        return self._wrong_user(namespace, route, {"token": "of-nobody"})

    def secret_without_token(self, namespace: str, route: Route) -> Fault:
        """The user in the kubeconfig of this route is empty."""
        return self._wrong_user(namespace, route, {})

    def _wrong_user(self, namespace: str, route: Route, user: Object) -> Fault:
        self._kubeconfigs.write(namespace, route, user=user)
        return Fault(lambda: self._kubeconfigs.write(namespace, route))

    def secret_absent(self, namespace: str, route: Route) -> Fault:
        """The Secret of this route is deleted."""
        self._stage.store.delete(self._kubeconfigs.key(namespace, route))
        return Fault(lambda: self._kubeconfigs.create(namespace, route))

    def route_untrusted(self, namespace: str, route: Route) -> Fault:
        """What answers on this route has a certificate that the Secret's authority does not vouch for."""
        shoot = self._stage.shoots[namespace]
        before = shoot.authority(route)
        shoot.show(self._stage.place.authority(namespace), route)
        return Fault(lambda: shoot.show(before, route))

    def name_gone(self, namespace: str) -> Fault:
        """The name in the external kubeconfig has no address."""
        self._kubeconfigs.write(namespace, Route.EXTERNAL, server=NOWHERE)
        return Fault(lambda: self._kubeconfigs.write(namespace, Route.EXTERNAL))
