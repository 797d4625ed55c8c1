"""PromQL that is right for two replicas, for processes that restart, and for several seeds in one Prometheus.

Gauges of shoots are told by the leader only, and by two processes for the moment of a hand-over: the greatest is taken
in each seed, and then the sum over the seeds.  Counters are the sum over all processes, each by its rate, which stands
a restart.  `$seed_label` is the label that tells seeds apart; where there is none, `$seed` is `.*`, which fits that.
"""

from typing import Final

SEED: Final = "$seed_label"
WINDOW: Final = "$__rate_interval"
"""Of a graph: from one point to the next, and at least four scrapes."""
RANGE: Final = "$__range"
"""All that the dashboard shows."""
CHOSEN: Final = f'{SEED}=~"$seed", job=~"$job"'
ONE_SHOOT: Final = 'namespace="$namespace"'


def of(metric: str, *matchers: str) -> str:
    """The series of a metric, of the chosen seeds and jobs."""
    return f"{metric}{{{', '.join((CHOSEN, *matchers))}}}"


def told(metric: str, *matchers: str, by: str = "", over: str = "") -> str:
    """A gauge of the leader: once in each seed, however many replicas tell it; then the sum.

    Args:
        metric: its name.
        matchers: which of its series.
        by: the labels that are kept, with commas between them.
        over: those that are summed over, beside the seeds; each of its series is told by `by` and these.
    """
    inner = f"max by ({_joined(SEED, by, over)}) ({of(metric, *matchers)})"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def latest(metric: str, *matchers: str, by: str = "") -> str:
    """A gauge of which the greatest is meant, by these labels: an instant, or what is told of one shoot."""
    return f"max by ({by}) ({of(metric, *matchers)})" if by else f"max({of(metric, *matchers)})"


def told_where(metric: str, where: str, *, by: str = "", over: str) -> str:
    """`told`, of those that have one of the series of `where` in the same seed, by the labels `over`."""
    inner = latest(metric, by=_joined(SEED, over))
    chosen = f"{inner} and on ({_joined(SEED, over)}) ({where})"
    return f"sum by ({by}) ({chosen})" if by else f"sum({chosen})"


def age(instant: str) -> str:
    """Seconds since an instant; a scrape tells of instants after its own, as an answer takes a moment."""
    return f"clamp_min(time() - {instant}, 0)"


def rate(metric: str, *matchers: str, by: str) -> str:
    """How often a second, by these labels."""
    return f"sum by ({by}) (rate({of(metric, *matchers)}[{WINDOW}]))"


def rise(metric: str, *matchers: str, by: str = "", within: str = WINDOW) -> str:
    """How often in a window, by these labels."""
    inner = f"(increase({of(metric, *matchers)}[{within}]))"
    return f"sum by ({by}) {inner}" if by else f"sum{inner}"


def events(metric: str, *matchers: str, by: str = "", within: str = WINDOW) -> str:
    """The same where there was one: what never happened is neither drawn nor in the legend."""
    return f"{rise(metric, *matchers, by=by, within=within)} > 0"


def quantile(share: float, histogram: str, *, by: str = "", within: str = WINDOW) -> str:
    """The time that this share of the observations in a window stays below; no series without observations."""
    inner = f"sum by ({_joined('le', by)}) (rate({of(histogram + '_bucket')}[{within}]))"
    return f"histogram_quantile({share}, {inner}) >= 0"


def leading(by: str) -> str:
    """Which replicas lead, by these labels; `loop` is the part of the Lease's name that tells prober from weeder."""
    named = of("leader_election_master_status")
    loop = f'label_replace({named}, "loop", "$1", "name", "dwd-(.*)-leader-election")'
    return f"sum by ({_joined(SEED, by)}) ({loop})"


def mean(histogram: str, *, by: str = "") -> str:
    """The mean of the observations in the window: right for few of them, where a quantile is made of its buckets."""
    return f"{rise(histogram + '_sum', by=by)} / ({rise(histogram + '_count', by=by)} > 0)"


def share(metric: str, matcher: str, *, by: str) -> str:
    """Which part of what is counted fits the matcher; 0 where none ever did."""
    whole = rate(metric, by=by)
    return f"({rate(metric, matcher, by=by)} or 0 * {whole}) / ({whole} > 0)"


def or_none(expression: str, witness: str) -> str:
    """The expression, or 0 where it has no series and `witness` has: then there is truly none, and a watchdog."""
    return f"{expression} or 0 * {witness}"


def _joined(*labels: str) -> str:
    return ", ".join(label for label in labels if label)
