"""What only a simulation knows: when each kubelet truly renewed, and so when an outage can be known; pure."""

import math
from collections.abc import Iterable, Iterator

from app.simulation.kubelets import Kubelet


def known_at(
    candidates: Iterable[Kubelet], *, limit: float, expiry: float, now: float, since: float
) -> float | None:
    """The first instant from `since` to `now` at which `limit` of the true ages are at least `expiry` (rules 3.1).

    Args:
        candidates: the kubelets of the candidate nodes.
        limit: a fraction, above 0.
        expiry: seconds, more than 1.5 renewal intervals: shorter absences are not remembered.
        now: the end of what has happened.
        since: where to begin; an outage that is already known there counts from there.

    Returns:
        The instant; None where it has not come.
    """
    kubelets = tuple(candidates)
    needed = max(math.ceil(limit * len(kubelets) - 1e-9), 1)
    old = 0
    for instant, change in sorted(_changes(kubelets, expiry, since)):
        if instant > now:
            return None
        old += change
        if old >= needed:
            return instant
    return None


def _changes(
    kubelets: Iterable[Kubelet], expiry: float, since: float
) -> Iterator[tuple[float, int]]:
    for kubelet in kubelets:
        for begin, end in kubelet.gaps:
            if end - begin >= expiry and end > since:
                yield max(begin + expiry, since), 1
                yield end, -1
        yield max(kubelet.last + expiry, since), 1
