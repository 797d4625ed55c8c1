"""What the audit log of the seed says of two instances in one outage."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.core.model import workloads as ann
from tests.e2e.audit import Request
from tests.e2e.failover_kinds import COUNTS, Cast, Kind
from tests.e2e.pair import LEASE

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
        """What the goal counts from; nobody writes about what cannot be known."""
        start = self.returned if kind.since == "return" else self.fault
        return start if kind.since == "fault" else max(start, self.known)


def judged(cast: Cast, kind: Kind, moments: Moments) -> Result:
    """What the log says."""
    leases = Leases(cast.stage.requests_to_seed(moments.began - 2 * LEASE))
    writes = cast.stage.writes(moments.began)
    by = {_jti(token): name for name, token in cast.tokens.items()}
    leader = next(each for each, name in by.items() if name == cast.leader.name)
    down = [each for each in writes if each.at < moments.restored]
    fitting = [each for each in down if not kind.by_another or each.credential != leader]
    start = moments.counted_from(kind)
    lead = leases.since(fitting[0]) if fitting else start
    able = max(moments.known, leases.since(down[0]), start if kind.since == "return" else 0.0)
    troubles = [*leases.over(writes, kind.sure), *counts(writes)]
    if strangers := {each.credential for each in writes} - by.keys():
        troubles.append(f"written by none of the two: {strangers}")
    if (early := moments.known - down[0].at) > _AT_MOST_EARLY:
        troubles.append(f"written {early:.1f} s before it could be known")
    if (late := down[0].at - able) > kind.look:
        troubles.append(f"protected {late:.1f} s after somebody could lead and look")
    return Result(
        first=max(fitting[0].at - start, 0.0) if fitting else None,
        led=max(lead - start, 0.0),
        known=moments.known - moments.fault,
        shared=len({each.credential for each in down if each.code < 300}) > 1,
        troubles=troubles,
    )


class Leases:
    """Who had the Lease when, by its writes among some requests."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._writes = [
            each
            for each in requests
            if each.resource == "leases" and each.writes and each.code < 300
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
        """Writes of those whose Lease was over, refused ones too; who lost it is sure of it for so many seconds."""
        for write in writes:
            last = max(
                (each for each in self._writes if each.done <= write.at),
                key=lambda each: each.at,
                default=None,
            )
            if last is None:
                yield f"nobody had the Lease: {write}"
            elif last.credential != write.credential or not _holder(last):
                if write.at - last.at > sure:
                    yield f"not its Lease, for {write.at - last.at:.2f} s: {write}"
            elif write.at - last.at > LEASE:
                yield f"its Lease was {write.at - last.at:.1f} s old: {write}"


def _holder(lease: Request) -> str:
    return lease.body["spec"].get("holderIdentity") or ""


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
