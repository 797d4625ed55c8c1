"""What is done to two instances, or to the seed between them, while an outage begins."""

import asyncio
import math
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from app.core.model.instants import rfc3339
from tests.e2e import pair
from tests.e2e.landscape import PROBER
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.program import Program, quick
from tests.e2e.proxies import HttpProxy, TcpProxy
from tests.e2e.worlds import World

COUNTS: Mapping[str, int] = {KCM: 3, MCM: 2, CA: 1}
CLOCKS_APART = 300.0
FOLLOWED = pair.LEASE + pair.RETRY
"""Seconds from the death of a leader to its successor."""
AT_ONCE = 2.0
SLOW_P50, SLOW_P99 = 2.0, 10.0
_Z99 = 2.326  # so many standard deviations are 99 % of a normal distribution


class Cast:
    """Two instances in a seed of their own, each with its own way there and its own token."""

    def __init__(self, world: World, ways: tuple[TcpProxy, TcpProxy]) -> None:
        self.stage, self.seed = world.stage, world.stage.seed
        self.ways = ways
        self.tokens: dict[str, str] = {}
        self.held = AsyncExitStack()
        """What a fault has begun, and `back` ends."""
        self.both = pair.Kept()
        self.leader: Program
        """Who leads when the fault begins."""

    @property
    def way(self) -> TcpProxy:
        """The leader's."""
        return self.ways[self.both.programs.index(self.leader)]

    async def prepare(self, *, apart: bool) -> None:
        """Both instances, not yet started; `apart`: the clock of the second is ahead."""
        await self.stage.furnish()
        for way in self.ways:
            self.stage.way_to_seed = way.url
            token = await self.seed.api.token_of(self.stage.garden, PROBER)
            made = await self.stage.prepare(quick(), token=token)
            self.tokens[made.name] = token
        if apart:
            words = self.stage.programs[-1].child.command
            at = words.index("app")
            words[at : at + 1] = ["tests.e2e.clock_ahead", str(CLOCKS_APART)]
        self.both = pair.Kept(*self.stage.programs)


@asynccontextmanager
async def cast_in(world: World, *, apart: bool) -> AsyncIterator[Cast]:
    """Both are started within, and a shoot is there for them."""
    ways = TcpProxy(world.stage.seed.port), TcpProxy(world.stage.seed.port)
    made = Cast(world, ways)
    try:
        for way in ways:
            await way.start()
        await made.stage.shoot.build(grace=16, duration=16, replicas=COUNTS)
        await made.prepare(apart=apart)
        async with made.both, made.held:
            yield made
    finally:
        for way in ways:
            await way.stop()


Act = Callable[[Cast], Awaitable[None]]


async def nothing(_: Cast) -> None:
    """There is nothing to do."""


async def send(cast: Cast, number: signal.Signals) -> None:
    cast.leader.child.signal(number)


async def stop(cast: Cast) -> None:
    cast.leader.child.pause()


async def wake(cast: Cast) -> None:
    cast.leader.child.resume()
    await asyncio.sleep(5)  # to see what it does in the outage that goes on


async def cut_leader(cast: Cast) -> None:
    await cast.way.cut()


async def cut_both(cast: Cast) -> None:
    for each in cast.ways:
        await each.cut()


async def heal(cast: Cast) -> None:
    for each in cast.ways:
        await each.heal()


async def delete_lease(cast: Cast) -> None:
    await cast.seed.api.delete(pair.lease_path(cast.stage))


async def edit_lease(cast: Cast, **spec: str | int) -> None:
    """Somebody writes into it, as the administrator."""
    await cast.seed.api.patch(pair.lease_path(cast.stage), {"spec": spec})


async def give_to_a_stranger(cast: Cast) -> None:
    now = rfc3339(time.time(), micro=True)
    await edit_lease(cast, holderIdentity="a-stranger", renewTime=now, acquireTime=now)


async def age_lease(cast: Cast) -> None:
    """As if its holder had died an hour ago, and had wanted it for a second."""
    then = rfc3339(time.time() - 3600, micro=True)
    await edit_lease(cast, renewTime=then, acquireTime=then, leaseDurationSeconds=1)


async def end_storage(cast: Cast) -> None:
    """It remembers where it stood, and compares when it is back."""
    term, revision = await cast.seed.storage.standing()
    await cast.seed.storage.child.kill()

    async def compare() -> None:
        now = await cast.seed.storage.standing()
        assert now[0] > term, "etcd has elected no leader of its own"
        assert now[1] >= revision, "etcd has forgotten"

    cast.held.push_async_callback(compare)


async def start_storage(cast: Cast) -> None:
    await cast.seed.storage.start()
    await cast.held.aclose()


async def end_server(cast: Cast) -> None:
    await cast.seed.child.stop(within=10)


async def start_another_server(cast: Cast) -> None:
    await cast.seed.replace()
    for each in cast.ways:
        each.lead_to(cast.seed.port)


async def slow(cast: Cast) -> None:
    """Each answer takes what a log-normal distribution says."""
    proxy = HttpProxy(cast.seed.url, cast.seed.authority)
    spread = math.log(SLOW_P99 / SLOW_P50) / _Z99
    proxy.delay = partial(pair.CHANCE.lognormvariate, math.log(SLOW_P50), spread)
    await proxy.start()
    cast.held.push_async_callback(proxy.stop)
    for each in cast.ways:
        each.lead_to(proxy.port)


async def quicken(cast: Cast) -> None:
    for each in cast.ways:
        each.lead_to(cast.seed.port)
    await cast.held.aclose()


@dataclass(frozen=True, slots=True)
class Kind:
    """One way in which something fails."""

    title: str
    go: Act
    back: Act = nothing
    lasts: tuple[float, float] = (0.0, 0.0)
    """Seconds from `go` to `back`, at random between these."""
    goal: float = FOLLOWED
    since: str = "fault"
    """What the goal counts from: the `fault`, the `return` of what was away, or when the outage could be `known`."""
    known_after: tuple[float, float] | None = None
    """Seconds from the fault to when the outage can be known; None: the nodes are cut `cut_after` the fault."""
    cut_after: float = pair.NODES_CUT_AFTER
    by_another: bool = False
    """Whether the goal is for the one that did not lead."""
    look: float = 8.0
    """Seconds from when somebody leads and the outage can be known to the first write; 6 s for leases not yet known."""
    apart: bool = False
    """Whether the clocks of the two are."""
    sure: float = 0.0
    """Seconds for which a leader cannot know that somebody has taken its Lease away."""


AT_THE_SAME_TIME = (0.0, 3.0)
KINDS = {
    "sigterm": Kind(
        "SIGTERM of the leader",
        partial(send, number=signal.SIGTERM),
        goal=AT_ONCE,
        known_after=(0.5, 0.5),
        by_another=True,
    ),
    "sigkill": Kind("SIGKILL of the leader", partial(send, number=signal.SIGKILL), by_another=True),
    "sigstop": Kind(
        "SIGSTOP of the leader for 60 s", stop, wake, lasts=(60.0, 60.0), by_another=True
    ),
    "leader-cut": Kind(
        "the leader cut off from the seed", cut_leader, heal, lasts=(25.0, 30.0), by_another=True
    ),
    "both-cut": Kind(
        "both cut off for 25 to 40 s",
        cut_both,
        heal,
        lasts=(25.0, 40.0),
        goal=pair.BACK_WITHIN,
        since="return",
    ),
    "lease-deleted": Kind(
        "the Lease deleted",
        delete_lease,
        goal=AT_ONCE,
        since="known",
        known_after=AT_THE_SAME_TIME,
        sure=pair.RETRY,
    ),
    "lease-edited": Kind(
        "the Lease edited: renewed an hour ago, for a second",
        age_lease,
        goal=AT_ONCE,
        since="known",
        known_after=AT_THE_SAME_TIME,
        sure=pair.RETRY,
    ),
    "lease-stranger": Kind(
        "the Lease held by a stranger, who never renews it",
        give_to_a_stranger,
        known_after=(0.0, 7.0),
        sure=pair.RETRY,
    ),
    "etcd": Kind(
        "etcd of the seed ended for 30 s",
        end_storage,
        start_storage,
        lasts=(30.0, 30.0),
        goal=pair.BACK_WITHIN,
        since="return",
    ),
    "server": Kind(
        "the API server replaced by one at another address",
        end_server,
        start_another_server,
        lasts=(5.0, 15.0),
        goal=pair.BACK_WITHIN,
        since="return",
    ),
    "clocks": Kind(
        "clocks 5 minutes apart, SIGKILL of the leader",
        partial(send, number=signal.SIGKILL),
        apart=True,
        by_another=True,
    ),
}


def kinds(slow_for: float) -> dict[str, Kind]:
    """All kinds; the seed is slow for that many seconds."""
    title = f"answers of the seed 2 s late (p50), 10 s (p99), for {slow_for / 60:g} min"
    lasts = (slow_for, slow_for)
    of_slow = Kind(title, slow, quicken, lasts, 30.0, "known", cut_after=slow_for / 2, look=60.0)
    return {**KINDS, "slow": of_slow}
