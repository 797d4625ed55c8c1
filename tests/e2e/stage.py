"""What a scenario plays on: a shoot, programs that act on that shoot only, and oracles of what they did."""

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.e2e import landscape, objects, program
from tests.e2e.actors import WorkloadController
from tests.e2e.audit import Request
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landscape import PROBE_USER, PROBER, Dependent, Shoot
from tests.e2e.objects import Json
from tests.e2e.processes import eventually
from tests.e2e.program import Program, server_pattern

SCALED = {"deployments", "deployments/scale", "scalers", "scalers/scale", "scalers/status"}


class Stage:
    """One scenario's own part of the world."""

    def __init__(
        self,
        number: int,
        folder: Path,
        seed: ControlPlane,
        plane: ControlPlane,
        controller: WorkloadController,
        figures: list[str],
    ) -> None:
        self.began = time.time()
        self.number = number
        self.folder = folder
        self.seed = seed
        self.way_to_seed = seed.url
        """Where programs that are prepared from now on reach it: a proxy, perhaps."""
        self.plane = plane
        self.controller = controller
        self.shoot = Shoot(seed.api, plane, f"shoot--e2e--s{number:02}")
        self.garden = f"garden-{number:02}"
        self.programs: list[Program] = []
        self._token: str | None = None
        self._figures = figures

    def moved_to(self, seed: ControlPlane, controller: WorkloadController) -> "Stage":
        """The same shoot's API server with another seed; its end is for the caller."""
        return Stage(self.number, self.folder, seed, self.plane, controller, self._figures)

    # Programs.

    async def furnish(self, role: str = PROBER, own: list[Json] | None = None) -> None:
        """Makes the programs' namespace and account, bound to this ClusterRole and to `own` rules in there.

        Those are, unless given, Gardener's, and beside them it has what Pauses and ScaleRequests need: a watch that is
        refused is never well. `prepare` does this where nobody has done it before.
        """
        self._token = await landscape.garden(self.seed.api, self.garden, role, own)
        if own is None:
            await landscape.grant(self.seed.api, self.garden, "people", objects.people_rules())

    async def start(self, settings: Json | None = None, **flags: str) -> Program:
        """Starts an instance of the program that acts on this shoot; returns when it is ready."""
        made = await self.prepare(settings, **flags)
        await made.start()
        return made

    async def prepare(
        self, settings: Json | None = None, *, token: str | None = None, **flags: str
    ) -> Program:
        """An instance of the program that is not yet started; `flags` with underscores.

        With the token that all have, unless it is given one of its own, by which the audit log tells it apart.
        """
        if self._token is None:
            await self.furnish()
        kubeconfig = program.admin_config(
            self.way_to_seed, self.seed.authority.pem, token or self.token
        )
        ours = {
            "shoot-server-pattern": server_pattern(self.plane.port),
            **({} if self.garden == "garden" else {"leader-election-namespace": self.garden}),
            **{flag.replace("_", "-"): value for flag, value in flags.items()},
        }
        name = f"prober-{self.shoot.namespace[-3:]}-{len(self.programs)}"
        command = program.prober(settings or program.config())
        made = Program(name, self.folder, command, kubeconfig, ours)
        self.programs.append(made)
        return made

    async def until_state(self, prober: Program, *states: str, within: float = 40) -> Json:
        """Waits until the API says that the shoot is in one of these states; returns the shoot."""

        async def is_so() -> Json | None:
            found = await prober.shoot(self.shoot.namespace)
            return found if found.get("state") in states else None

        what = f"{self.shoot.namespace} is {' or '.join(states)}"
        return await eventually(is_so, what, within=within, every=0.25) or {}

    @property
    def token(self) -> str:
        """The token with which the programs go to the seed."""
        assert self._token is not None, "nobody was furnished"
        return self._token

    # Oracles.

    async def until_down(self, *names: str, within: float = 60) -> dict[str, Dependent]:
        """Waits until these dependents (all, if none is named) are at 0."""
        return await self._until(lambda each: each.replicas == 0, "at 0", names, within)

    async def until_up(self, *names: str, within: float = 120) -> dict[str, Dependent]:
        """Waits until these dependents (all, if none is named) run and carry no key any more."""
        return await self._until(
            lambda each: each.replicas > 0 and not each.protected and each.saved is None,
            "back without keys",
            names,
            within,
        )

    async def _until(
        self, holds: Any, what: str, names: tuple[str, ...], within: float
    ) -> dict[str, Dependent]:
        wanted = names or tuple(self.shoot.dependents)

        async def is_so() -> dict[str, Dependent] | None:
            state = await self.shoot.state()
            return state if all(holds(state[name]) for name in wanted) else None

        return await eventually(is_so, f"{', '.join(wanted)} {what}", within=within) or {}

    @property
    def prober_user(self) -> str:
        """Who the programs are in the seed."""
        return f"system:serviceaccount:{self.garden}:{PROBER}"

    def requests_to_seed(self, since: float = 0) -> list[Request]:
        """What the programs asked of the seed."""
        return self.seed.audit.requests(since=max(since, self.began), user=self.prober_user)

    def requests_to_shoot(self, since: float = 0) -> list[Request]:
        """What the programs asked of the shoot."""
        return self.plane.audit.requests(since=max(since, self.began), user=PROBE_USER)

    def writes(self, since: float = 0) -> list[Request]:
        """What the programs wrote to dependents, refused writes too."""
        found = self.requests_to_seed(since)
        return [each for each in found if each.writes and each.resource in SCALED]

    async def healthy(self, settings: Json | None = None, **flags: str) -> Program:
        """Starts an instance of the program and waits until the shoot is healthy for it."""
        prober = await self.start(settings, **flags)
        await self.until_state(prober, "Healthy")
        return prober

    async def outage(self, within: float = 60) -> dict[str, Dependent]:
        """Cuts all nodes off and waits until the dependents are at 0."""
        self.shoot.kubelets.path.cut()
        return await self.until_down(within=within)

    def assert_nothing_was_scaled(self, since: float = 0) -> None:
        """No dependent was written to."""
        writes = self.writes(since)
        assert not writes, "\n".join(str(each) for each in writes)

    async def stays_unharmed(self, seconds: float) -> None:
        """For so long no dependent is written to, and none was before."""
        await asyncio.sleep(seconds)
        self.assert_nothing_was_scaled()

    def figure(self, text: str) -> None:
        """Adds a measured figure to the summary of the run."""
        self._figures.append(f"{self.shoot.namespace}: {text}")

    # Its end.

    async def clear(self) -> None:
        """Ends the programs and removes what would disturb the next scenario."""
        for each in self.programs:
            await each.child.kill()
        await self.plane.recover()
        await self.shoot.demolish()

    def report(self) -> str:
        """What someone who looks at a failure wants to see."""
        parts = [f"{self.shoot.namespace} on {self.plane.name}, writes to dependents:"]
        parts += [str(each) for each in self.writes()]
        for each in self.programs:
            parts += [f"--- {each.child.log.name}, exit code {each.child.exit_code}"]
            parts += [each.child.tail()]
        return "\n".join(parts)
