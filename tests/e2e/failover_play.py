"""One outage with something else in the middle of it, and what the audit log of the seed says of it."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from app.core.model import workloads as ann
from tests.e2e.audit import Request
from tests.e2e.failover_kinds import COUNTS, Cast, Kind
from tests.e2e.pair import CHANCE, LEASE, RETRY, seed_is_back

LIMIT = 420.0
"""Seconds within which a run has ended, beside those that its fault lasts."""
_DOWN_WITHIN = 120.0
_AT_MOST_EARLY = 0.3  # seconds by which the clocks of a test and of its children may be late


@dataclass(frozen=True, slots=True)
class Result:
    """Of one run; seconds."""

    first: float | None
    """From what the goal counts from to the first write; None: the one that it is for had nothing left to write."""
    led: float
    """From the same to when the one that wrote first had the Lease; 0: it had it all along."""
    known: float
    """From the fault to when the outage could be known."""
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
        """What the goal counts from; nobody writes about what cannot be known."""
        start = {"fault": self.fault, "return": self.returned, "known": self.fault}[kind.since]
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
    moments = Moments(began, fault, returned, known, restored)
    result = judged(cast, kind, moments)
    now = await shoot.replicas()
    if now != COUNTS:
        result.troubles.append(f"at the end: {now}")
    return result


async def _until(instant: float) -> None:
    await asyncio.sleep(max(instant - time.time(), 0))


# The judge.


def judged(cast: Cast, kind: Kind, moments: Moments) -> Result:
    """What the log says."""
    leases, writes = Leases(cast, moments), cast.stage.writes(moments.began)
    by = {jti(token): name for name, token in cast.tokens.items()}
    leader = next(each for each, name in by.items() if name == cast.leader.name)
    down = [each for each in writes if each.at < moments.restored]
    fitting = [each for each in down if not kind.by_another or each.credential != leader]
    start = moments.counted_from(kind)
    lead = leases.since(fitting[0]) if fitting else start
    earliest = max(moments.known, start if kind.since == "return" else 0.0, leases.since(down[0]))
    troubles = [*leases.over(writes, kind.sure), *counts(writes, by)]
    if strangers := {each.credential for each in writes} - by.keys():
        troubles.append(f"written by nobody of the two: {strangers}")
    if (early := moments.known - down[0].at) > _AT_MOST_EARLY:
        troubles.append(f"written {early:.1f} s before it could be known")
    if (late := down[0].at - earliest) > kind.look:
        troubles.append(f"protected {late:.1f} s after somebody could lead and look")
    return Result(
        first=max(fitting[0].at - start, 0.0) if fitting else None,
        led=max(lead - start, 0.0),
        known=moments.known - moments.fault,
        troubles=troubles,
    )


class Leases:
    """Who had the Lease when, by its writes."""

    def __init__(self, cast: Cast, moments: Moments) -> None:
        asked = cast.stage.requests_to_seed(moments.began - 2 * LEASE)
        self._writes = [
            each for each in asked if each.resource == "leases" and each.writes and each.code < 300
        ]

    def last(self, before: Request) -> Request | None:
        """The last one that had come before a request."""
        return next((each for each in reversed(self._writes) if each.at <= before.at), None)

    def since(self, write: Request) -> float:
        """When the one that wrote had begun to hold it without a break."""
        began = write.at
        for each in reversed([each for each in self._writes if each.at <= write.at]):
            if each.credential != write.credential or not _holder(each):
                break
            began = each.at
        return began

    def over(self, writes: list[Request], sure: float) -> Iterator[str]:
        """Writes of those whose Lease was over; it is not before they can know, `sure` seconds after it was taken."""
        for write in writes:
            last = self.last(write)
            if last is None:
                yield f"nobody had the Lease: {write}"
            elif last.credential != write.credential or not _holder(last):
                if write.at - last.at > sure:
                    yield f"another one had the Lease for {write.at - last.at:.2f} s: {write}"
            elif write.at - last.at > LEASE:
                yield f"the Lease was {write.at - last.at:.1f} s old: {write}"


def _holder(lease: Request) -> str:
    return lease.body["spec"].get("holderIdentity") or ""


def counts(writes: list[Request], by: dict[str, str]) -> Iterator[str]:
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
                yield f"{name}: written by {by[one.credential]} and {by[two.credential]}: {two}"
        steps = [each.body["spec"]["replicas"] for each in scaled]
        if steps != [0, count]:
            yield f"{name} went to {steps} instead of [0, {count}]"


def jti(token: str) -> str:
    """By what the audit log tells a token."""
    payload = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"])
