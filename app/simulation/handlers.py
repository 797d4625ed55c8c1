"""Runs endpoint probes in a simulated world (`endpoint_ports.Handlers`): targets answer as the world says."""

import asyncio
from collections import Counter
from typing import Final, NamedTuple, assert_never

from app.core.model.endpoints import (
    Address,
    EndpointProbe,
    Exec,
    HttpGet,
    Outcome,
    Ran,
    TcpSocket,
)
from app.simulation.network import Answer, Manner
from app.simulation.pod_views import pod_ready, probed_view
from app.simulation.stage import Stage
from app.simulation.store import Key

LATENCY: Final = 0.005
"""Seconds of one run, there and back."""
_INSIDE: Final = (".svc", ".svc.cluster.local")


class RunOf(NamedTuple):
    """What is counted: the probe by its name, and its target."""

    probe: str
    namespace: str
    target: str
    """The host; of a container, its pod's name and its own, with a slash between."""


class SimulatedHandlers:
    """A host is well unless the world says otherwise; a container answers while it runs, and is well while it is ready.

    A host outside of the seed is reached through the seed's network, and not while that is cut.
    """

    def __init__(self, stage: Stage) -> None:
        self.runs: Counter[RunOf] = Counter()
        """How often each target was asked."""
        self.running = 0
        """How many runs are on their way."""
        self._stage = stage

    async def run(self, probe: EndpointProbe, address: Address) -> Ran:
        """What one run brings, after `timeoutSeconds` at the latest."""
        target = f"{address.pod}/{address.container}" if address.pod else address.host
        self.runs[RunOf(probe.name, address.namespace, target)] += 1
        if (missing := _missing_port(probe, address)) is not None:
            return Ran(Outcome.ERROR, f"the container has no port named {missing}")
        self.running += 1
        try:
            async with asyncio.timeout(probe.timeout):
                return await self._asked(probe, address)
        except TimeoutError:
            return Ran(Outcome.FAILURE, f"no answer within {probe.timeout} s")
        finally:
            self.running -= 1

    async def _asked(self, probe: EndpointProbe, address: Address) -> Ran:
        manner = self._manner(probe, address)
        if not address.pod and _outside(address.host):
            await self._stage.network.through()
        await self._stage.clock.sleep(LATENCY + manner.after)
        match manner.answer:
            case Answer.WELL:
                return Ran(Outcome.SUCCESS, "it is well")
            case Answer.UNWELL:
                return Ran(Outcome.FAILURE, "it answers that it is not well")
            case Answer.REFUSES:
                return Ran(Outcome.FAILURE, "connection refused")
            case Answer.SWALLOWS:
                await asyncio.Event().wait()  # until its time is over
                raise TimeoutError
            case Answer.ERRS:
                return Ran(Outcome.ERROR, "it could not be asked")
            case _:
                assert_never(manner.answer)

    def _manner(self, probe: EndpointProbe, address: Address) -> Manner:
        """What is said of a target, or else what its pod says."""
        said = self._stage.hosts.manner(address.namespace, address.pod or address.host)
        if said is not None:
            return said
        if address.pod:
            return Manner(self._of_container(probe, address))
        return Manner()

    def _of_container(self, probe: EndpointProbe, address: Address) -> Answer:
        found = self._stage.store.find(Key("Pod", address.namespace, address.pod))
        if found is None:
            return Answer.SWALLOWS
        running = {each.name for each in probed_view(found).containers if each.running}
        if address.container not in running:
            return Answer.ERRS if isinstance(probe.handler, Exec) else Answer.REFUSES
        return Answer.WELL if pod_ready(found) else Answer.UNWELL


def _missing_port(probe: EndpointProbe, address: Address) -> str | None:
    """The name of the port that its target would have to have."""
    if not isinstance(probe.handler, HttpGet | TcpSocket):
        return None
    port = probe.handler.port
    return port if isinstance(port, str) and port not in address.ports else None


def _outside(host: str) -> bool:
    """Whether a host is outside of the seed; what has no dot, or ends as Services do, is inside."""
    return "." in host and not host.endswith(_INSIDE)
