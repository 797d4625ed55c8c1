"""One outage with something else in the middle of it, and what the audit log of the seed says of the two instances."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.core.model import workloads as ann
from tests.e2e import objects
from tests.e2e.audit import Request
from tests.e2e.failover_kinds import COUNTS, Cast, Kind
from tests.e2e.pair import CHANCE, LEASE, RETRY, seed_is_back

LIMIT = 420.0
"""Seconds within which a run has ended, beside those that its fault lasts."""
_DOWN_WITHIN = 120.0
_AT_MOST_EARLY = 0.3  # seconds by which `known_at` may be off


@dataclass(frozen=True, slots=True)
class Result:
    """Of one run; seconds."""

    first: float | None
    """From what the goal counts from to the first write; None: the one that it is for had nothing left to write."""
    led: float
    """From the same to when the one that wrote first had the Lease; 0: it had it all along."""
    known: float
    """From the fault to when the outage could be known."""
    shared: bool
    """Whether the dependents went to 0 by both, each of them by one."""
    troubles: list[str]
    """What must not happen, and did."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Of one run; seconds since the epoch."""

    began: float
    fault: float
    returned: float
    known: float
    restored: float

    def counted_from(self, kind: Kind) -> float:
        """What the goal counts from.

        `fault`: the fault. `return`: the return, or when the outage could be known if that is later. `known`: when it
        could be known, the fault at the earliest.
        """
        start = self.returned if kind.since == "return" else self.fault
        return start if kind.since == "fault" else max(start, self.known)


async def play(cast: Cast, kind: Kind) -> Result:
    """Plays it; all is well again afterwards."""
    stage = cast.stage
    shoot, path = stage.shoot, stage.shoot.kubelets.path
    cast.leader = await cast.both.leader(within=120)
    await stage.until_state(cast.leader, "Healthy")
    await asyncio.sleep(CHANCE.uniform(2 * RETRY, 3 * RETRY))  # the other one has seen renewals
    began = time.time()
    if kind.known_after is not None:
        path.cut()
        await asyncio.sleep(0.5)  # renewals that were under way
        await _until(shoot.known_at() - CHANCE.uniform(*kind.known_after))
    fault = time.time()
    await kind.go(cast)
    if kind.known_after is None:
        await _until(fault + kind.cut_after)
        path.cut()
    await _until(fault + CHANCE.uniform(*kind.lasts))
    await kind.back(cast)
    returned = await seed_is_back(stage)
    await stage.until_down(within=_DOWN_WITHIN)
    known, restored = shoot.known_at(), path.restore()
    await stage.until_up()
    result = judged(cast, kind, Moments(began, fault, returned, known, restored))
    now = await shoot.replicas()
    if now != COUNTS:
        result.troubles.append(f"at the end: {now}")
    return result


async def _until(instant: float) -> None:
    await asyncio.sleep(max(instant - time.time(), 0))


def judged(cast: Cast, kind: Kind, moments: Moments) -> Result:
    """What the log says."""
    leases = Leases(_of_the_lease(cast, since=moments.began - 2 * LEASE))
    writes = cast.stage.writes(moments.began)
    by = {_jti(token): name for name, token in cast.tokens.items()}
    leader = next(each for each, name in by.items() if name == cast.leader.name)
    down = [each for each in writes if each.at < moments.restored]
    done = [each for each in down if each.code < 300]
    fitting = [each for each in done if not kind.by_another or each.credential != leader]
    start = moments.counted_from(kind)
    lead = leases.since(fitting[0]) if fitting else start
    able = max(moments.known, leases.since(done[0]), start if kind.since == "return" else 0.0)
    troubles = [*leases.over(writes, kind.sure), *counts(writes)]
    if strangers := {each.credential for each in writes} - by.keys():
        troubles.append(f"written by none of the two: {strangers}")
    if (early := moments.known - down[0].at) > _AT_MOST_EARLY:
        troubles.append(f"written {early:.1f} s before it could be known")
    if (late := done[0].at - able) > kind.look:
        troubles.append(f"protected {late:.1f} s after the one that wrote could look")
    return Result(
        first=max(fitting[0].at - start, 0.0) if fitting else None,
        led=max(lead - start, 0.0),
        known=moments.known - moments.fault,
        shared=len({each.credential for each in done}) > 1,
        troubles=troubles,
    )


def _of_the_lease(cast: Cast, *, since: float) -> list[Request]:
    """What anybody asked of the Lease, strangers too."""
    return [
        each
        for each in cast.seed.audit.requests(since=since)
        if (each.resource, each.namespace, each.name)
        == ("leases", cast.stage.garden, objects.LEASE)
    ]


class Leases:
    """Who had the Lease when, by what was asked of it."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._writes = [
            each for each in requests if each.writes and each.code < 300 and _names_a_holder(each)
        ]

    def since(self, write: Request) -> float:
        """When the one that wrote had begun to hold it without a break; it may have lost it since, unawares."""
        began = None
        for each in reversed([each for each in self._writes if each.at <= write.at]):
            if each.credential == write.credential and _holder(each):
                began = each.at
            elif began is not None:
                break
        return write.at if began is None else began

    def over(self, writes: Sequence[Request], sure: float) -> Iterator[str]:
        """Writes of those whose Lease was over, refused ones too.

        One from whom another took it is `sure` of it for so many seconds; one that gave it back knows.
        """
        for write in writes:
            last = max(
                (each for each in self._writes if each.done <= write.at),
                key=lambda each: each.at,
                default=None,
            )
            if last is None:
                yield f"nobody had the Lease: {write}"
            elif last.credential != write.credential or not _holder(last):
                lost = self.since(last) if _holder(last) else last.at
                allowed = sure if last.credential != write.credential else 0.0
                if write.at - lost > allowed:
                    yield f"not its Lease, for {write.at - lost:.2f} s: {write}"
            elif write.at - last.at > LEASE:
                yield f"its Lease was {write.at - last.at:.1f} s old: {write}"


def _names_a_holder(lease: Request) -> bool:
    """A deletion does not, nor does a patch of something else: neither makes anybody a holder."""
    return "holderIdentity" in (lease.body.get("spec") or {})


def _holder(lease: Request) -> str:
    return (lease.body.get("spec") or {}).get("holderIdentity") or ""


def counts(writes: Sequence[Request]) -> Iterator[str]:
    """Each dependent goes to 0 once, with its count saved, and back to that once, and no two do either."""
    for name, count in COUNTS.items():
        done = [each for each in writes if each.name == name and each.code < 300]
        scaled = [each for each in done if "spec" in each.body]
        for each in scaled:
            saved = (each.body["metadata"].get("annotations") or {}).get(ann.REPLICAS)
            if each.body["spec"]["replicas"] == 0 and saved != str(count):
                yield f"{name}: the saved count is {saved!r} instead of {count}: {each}"
        for one, two in pairwise(scaled):
            if one.body["spec"] == two.body["spec"] and one.credential != two.credential:
                yield f"{name}: the same by two: {one}; {two}"
        steps = [each.body["spec"]["replicas"] for each in scaled]
        if steps != [0, count]:
            yield f"{name} went to {steps} instead of {[0, count]}"


def _jti(token: str) -> str:
    """By what the audit log tells a token."""
    payload = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"])
