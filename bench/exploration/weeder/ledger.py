"""What truly happens in a world of the weeder: what was deleted and by whom, who leads, how many pods there are."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from app.core.model.shoots import Route
from app.core.model.weeding import ServiceKey
from app.simulation.builders import World
from app.simulation.server.options import RequestedObject
from app.simulation.store import Object, ObjectKey, StoreEvent
from app.simulation.views import pod_view
from bench.exploration.life import TIMES
from bench.exploration.line import Boundary, Passage, Sent
from bench.exploration.weeder.facts import Accepted, Sending, ends, owner_of
from bench.exploration.weeder.process import LEASE, WeederProcess
from bench.exploration.weeder.recipe import WeederRecipe

_LATE: Final = 70.0
"""A request may be carried out so long after it was sent, seconds."""
_AT_REST: Final = frozenset({"leases", "pauses", "endpointslices"})
"""What is asked for at rest, too: the Lease, and what is watched all the time."""


class WeederLedger:
    """Keeps the facts; a `Watcher` of all processes."""

    def __init__(self, world: World, recipe: WeederRecipe) -> None:
        self.world, self.recipe, self.policy = world, recipe, recipe.policy
        self.sent: dict[str, deque[Sending]] = defaultdict(deque)
        """By process, those of the last `watchDuration` and some more."""
        self.accepted: dict[str, list[Accepted]] = defaultdict(list)
        """By process."""
        self.gone: dict[str, str] = {}
        """The uids that were deleted, and by which process."""
        self.woke: dict[str, float] = {}
        """When each process last went on after it had stood still."""
        self.forbidden: dict[str, list[tuple[float, str]]] = defaultdict(list)
        """By process: when it met a 403, and in which namespace."""
        self.asked: dict[str, float] = {}
        """When each process last sent a request that it does not send at rest."""
        self.on_sending: Callable[[WeederProcess, Sending], None] = lambda *_: None
        self.on_accepted: Callable[[Accepted], None] = lambda _: None
        self.on_passage: Callable[[Passage], None] = lambda _: None
        self.process: Callable[[str], WeederProcess | None] = lambda _: None
        """The process of a name, while it runs."""
        self._owners: dict[str, str] = {}
        """By the uid of a pod, that of its owner: also of pods that are gone."""
        self._renewed: dict[str, float] = {}
        self._began: dict[tuple[str, int], float] = {}
        """When each request was sent: one that was given up, or cut off, may be carried out later."""
        self._latest_of: dict[tuple[str, str, str], Sending] = {}
        self._sizes: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        world.store.subscribe(self._stored)

    @property
    def now(self) -> float:
        """The instant that it is."""
        return self.world.clock.now()

    # As `Books`.

    def observe(self) -> None:
        """Nothing here has to be looked at."""

    def unsettle(self, namespace: str) -> None:
        """What people change shows in the store."""

    def begins(self, name: str, arguments: dict[str, Any]) -> None:
        """No fault needs a word of its own."""

    # What the lines tell.

    def passed(self, passage: Passage) -> None:
        """A request of a process passes a boundary."""
        place, request = (passage.process, passage.number), passage.request
        match passage.boundary:
            case Boundary.ABOUT_TO_SEND:
                pass
            case Boundary.SENT:
                self._began[place] = self.now
                if request.what not in _AT_REST and (request.what, request.namespace) != (
                    "pods",
                    "",
                ):
                    self.asked[passage.process] = self.now
            case Boundary.CARRIED_OUT:
                self._carried_out(passage)
            case Boundary.ANSWERED:
                if passage.outcome == "Forbidden":
                    self.forbidden[passage.process].append((self.now, request.namespace))
        self.on_passage(passage)

    def wakes_now(self, process: str) -> bool:
        """Whether this is the instant in which it goes on: what it was about to do comes before what it has to read."""
        return self.now == self.woke.get(process)

    def asks(self, process: str, sent: Sent) -> None:
        """A process is about to send this."""
        body, target = sent.body, sent.target
        if (sent.request.verb, sent.request.what) != ("delete", "pods"):
            return
        found = self.process(process)
        if found is not None and body is not None and target is not None:
            conditions = body.get("preconditions", {})
            sending = self._sending(found, target, conditions.get("uid", ""))
            # Between its last check and the send call a process can be stopped, and nobody can help that.
            if not sent.connected_ago or not self.wakes_now(process):
                self.on_sending(found, sending)

    def serves(self, process: str, sent: Sent, serve: Callable[[], Any]) -> Any:  # noqa: ANN401  whatever it serves
        """A server works for this process."""
        target = sent.target
        if target is None or (sent.request.verb, sent.request.what) != ("delete", "pods"):
            return serve()
        before = self.world.store.find(ObjectKey("Pod", target.namespace, target.name))
        answer = serve()
        if before is not None:
            self._deleted(process, before)
        return answer

    def connecting(self, process: str, namespace: str, route: Route) -> None:
        """The weeder connects to no shoot."""

    def refused(self, process: str, namespace: str, route: Route, error: OSError) -> None:
        """The weeder connects to no shoot."""

    def _carried_out(self, passage: Passage) -> None:
        request = passage.request
        if request.what == "leases" and request.verb in {"create", "update"}:
            held = self.world.store.get(ObjectKey("Lease", *LEASE))["spec"].get("holderIdentity")
            if held == passage.process:
                began = self._began[(passage.process, passage.number)]
                self._renewed[passage.process] = began

    # Deletions.

    def _sending(self, process: WeederProcess, target: RequestedObject, uid: str) -> Sending:
        """A process sends a deletion."""
        namespace, name = target.namespace, target.name
        services = (
            frozenset[str]() if process.sight is None else process.sight.recovering(namespace)
        )
        sending = Sending(
            process.name, self.now, namespace, name, uid, self._owners.get(uid, uid), services
        )
        self._latest_of[process.name, namespace, name] = sending
        mine = self.sent[process.name]
        while mine and mine[0].at < self.now - self.policy.watch_duration - _LATE:
            mine.popleft()
        mine.append(sending)
        return sending

    def _deleted(self, process: str, pod: Object) -> None:
        """A deletion of a process was accepted; of a pod that it did not judge, too."""
        uid, place = pod["metadata"]["uid"], pod["metadata"]
        sending = self._latest_of[process, place["namespace"], place["name"]]
        accepted = Accepted(sending, pod)
        self.on_accepted(accepted)
        self.gone[uid] = process
        self.accepted[process].append(accepted)

    # What there truly is.

    def _stored(self, event: StoreEvent) -> None:
        if event.key.kind != "Pod" or (owner := owner_of(event.object)) is None:
            return
        self._owners[event.object["metadata"]["uid"]] = owner
        pods = self.world.store.list("Pod", event.key.namespace)
        size = sum(owner_of(pod) == owner and not ends(pod) for pod in pods)
        sizes, oldest = self._sizes[owner], self.now - self.policy.watch_duration - _LATE
        if not sizes or sizes[-1][1] != size:
            sizes.append((self.now, size))
        while len(sizes) > 1 and sizes[1][0] < oldest:
            sizes.popleft()

    def most_pods(self, owner: str) -> int:
        """The most pods that an owner had, in the time that caps look at."""
        return max((size for _, size in self._sizes[owner]), default=0)

    def selecting(self, pod: Object) -> frozenset[str]:
        """The services that a selector of matches this pod."""
        labels = pod["metadata"].get("labels") or {}
        return frozenset(
            service
            for service, selectors in self.policy.services.items()
            if any(each.matches(labels) for each in selectors)
        )

    def ready_since(self, key: ServiceKey) -> float | None:
        """Since when a service is ready, as its pods say; None where that is not known."""
        slices = self.world.slices(key.namespace, key.service)
        names = {each.pod for one in slices for each in one.endpoints if each.ready and each.pod}
        found = (
            self.world.store.find(ObjectKey("Pod", key.namespace, name)) for name in sorted(names)
        )
        instants = [pod_view(pod).ready_since for pod in found if pod is not None]
        return min((each for each in instants if each is not None), default=None)

    def leads(self, process: str) -> bool:
        """Whether this process may start a deletion: it renewed the Lease within the renew deadline."""
        if not self.recipe.elected:
            return True
        renewed = self._renewed.get(process)
        lease = self.world.store.find(ObjectKey("Lease", *LEASE))
        holder = None if lease is None else lease["spec"].get("holderIdentity")
        return (
            holder == process and renewed is not None and self.now - renewed < TIMES.renew_deadline
        )
