"""What can happen to the targets of endpoint probes, and to the seed's way out."""

from app.simulation.hosts import Answer, Manner
from app.simulation.stage import Fault, Stage


class EndpointFaults:
    """What can happen to hosts and pods that are probed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def seed_network_cut(self) -> Fault:
        """The seed's way out swallows everything, probes of hosts and external routes; what is inside goes on."""
        self._stage.network.cut()
        return Fault(self._stage.network.mend)

    def canary_down(self, host: str) -> Fault:
        """A host says nothing any more, whoever asks."""
        return self.target_answers(host, Answer.SWALLOWS)

    def target_answers(
        self, target: str, answer: Answer, *, namespace: str = "", after: float = 0.0
    ) -> Fault:
        """A host, or the pod of this name, answers so.

        Args:
            target: which.
            answer: how.
            namespace: for whose probes; empty: for all.
            after: seconds that it takes longer than others.
        """
        manner = Manner(answer, after)
        self._stage.hosts.begin(manner, target, namespace)
        return Fault(lambda: self._stage.hosts.end(manner, target, namespace))

    def target_slow(self, target: str, seconds: float, *, namespace: str = "") -> Fault:
        """A host is well, and takes so many seconds to say so."""
        return self.target_answers(target, Answer.WELL, namespace=namespace, after=seconds)
