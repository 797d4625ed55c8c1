"""Runs endpoint probes in a simulated world: implements `app.core.ports.Handlers`."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from app.core.model.endpoints import (
    EndpointProbeSpec,
    Exec,
    HttpGet,
    ProbeOutcome,
    Ran,
    TargetAddress,
    TcpSocket,
)
from app.simulation.store import ObjectKey
from app.simulation.views import probed_view, ready

if TYPE_CHECKING:
    from app.simulation.builders import World

LATENCY: Final = 0.005
"""Seconds for one run, both ways together."""
_INSIDE: Final = (".svc", ".svc.cluster.local")


class TargetAnswer(StrEnum):
    """The behaviour of a target that is probed."""

    WELL = "Well"
    UNWELL = "Unwell"
    """It answers with a failure."""
    REFUSES = "Refuses"
    """Connections are refused."""
    SWALLOWS = "Swallows"
    """It never answers."""
    ERRS = "Errs"
    """The run ends in an error, which says nothing about the target."""


_ANSWERS: Final = {
    TargetAnswer.WELL: Ran(ProbeOutcome.SUCCESS, "it is healthy"),
    TargetAnswer.UNWELL: Ran(ProbeOutcome.FAILURE, "it answers that it is unhealthy"),
    TargetAnswer.REFUSES: Ran(ProbeOutcome.FAILURE, "connection refused"),
    TargetAnswer.ERRS: Ran(ProbeOutcome.ERROR, "it could not be probed"),
}


@dataclass(frozen=True, slots=True)
class Manner:
    """How a target answers, and with what delay."""

    answer: TargetAnswer = TargetAnswer.WELL
    after: float = 0.0
    """Additional seconds until the answer."""


class SimulatedHandlers:
    """A host passes unless a fault says otherwise; a container answers while it runs, and passes while it is ready.

    A host outside of the seed is reached through the seed's network, and not while that is cut.
    """

    def __init__(self, world: "World") -> None:
        self._world = world

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        """Returns the result of one run, within `timeoutSeconds`."""
        port = probe.handler.port if isinstance(probe.handler, HttpGet | TcpSocket) else None
        if isinstance(port, str) and port not in address.ports:
            return Ran(ProbeOutcome.ERROR, f"the container has no port named {port}")
        try:
            async with asyncio.timeout(probe.timeout):
                return await self._asked(probe, address)
        except TimeoutError:
            return Ran(ProbeOutcome.FAILURE, f"no answer within {probe.timeout} s")

    async def _asked(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        manner = self._manner(probe, address)
        # names without a dot, or with the suffix of Services, are inside of the seed
        outside = "." in address.host and not address.host.endswith(_INSIDE)
        if not address.pod and outside:
            await self._world.network.through()
        await self._world.clock.sleep(LATENCY + manner.after)
        if manner.answer is TargetAnswer.SWALLOWS:
            await asyncio.Event().wait()  # until the timeout
        return _ANSWERS[manner.answer]

    def _manner(self, probe: EndpointProbeSpec, address: TargetAddress) -> Manner:
        """Returns the behaviour that a fault sets for a target, otherwise that of its pod."""
        for namespace in (address.namespace, ""):
            if said := self._world.manners[namespace, address.pod or address.host]:
                return said[-1]
        if address.pod:
            return Manner(self._of_container(probe, address))
        return Manner()

    def _of_container(self, probe: EndpointProbeSpec, address: TargetAddress) -> TargetAnswer:
        found = self._world.store.find(ObjectKey("Pod", address.namespace, address.pod))
        if found is None:
            return TargetAnswer.SWALLOWS
        running = {each.name for each in probed_view(found).containers if each.running}
        if address.container not in running:
            return TargetAnswer.ERRS if isinstance(probe.handler, Exec) else TargetAnswer.REFUSES
        return TargetAnswer.WELL if ready(found) else TargetAnswer.UNWELL
