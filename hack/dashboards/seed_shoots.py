"""Of the seed's dashboard: what is true of the shoots, and how it is found out."""

from typing import Final

from hack.dashboards.grafana import Query, Row
from hack.dashboards.panels import (
    BLUE,
    FROM_NOW,
    GREEN,
    LONG,
    ORANGE,
    PER_SECOND,
    RED,
    SECONDS,
    SHARE,
    WINDOWS,
    YELLOW,
    graph,
    stat,
    table,
)
from hack.dashboards.queries import (
    RANGE,
    age,
    events,
    latest,
    leading,
    mean,
    of,
    or_none,
    quantile,
    rate,
    rise,
    share,
    told,
    told_where,
)
from hack.dashboards.states import COLOURS
from hack.dashboards.variables import runbook, to_shoot

_RUNNING: Final = f"sum({of('dwd_build_info')})"
_PROBING: Final = told("dwd_probers_active")
_PROTECTED: Final = told("dwd_shoots", 'state=~"Protecting|Protected"')
_TROUBLED: Final = told("dwd_shoots", 'state=~"Unreachable|Failing"')
_PROTECTION: Final = "dwd_shoot_protection_start_timestamp_seconds"
_PROBED: Final = of("dwd_shoot_state", 'state!="NotProbed"')
_LOOKED_AFTER: Final = f"{of(_PROTECTION)} or {_PROBED}"
"""Without this hibernated shoots would count.  With `--per-shoot-metrics=false` there is only the first."""
_ZEROS: Final = "dwd_shoot_dependents_at_zero"
_AT_ZERO: Final = or_none(told_where(_ZEROS, _LOOKED_AFTER, over="namespace"), _PROBING)
_RIGHTS: Final = or_none(told("dwd_missing_permissions", over="verb, resource"), _RUNNING)

NOW: Final = Row(
    "Is it well, is anything protected?",
    (
        stat(
            "Protected shoots",
            "Shoots whose controllers are scaled down, or just now are being. 0 is the normal case. A "
            "few: outages of single shoots, see the table below. From 5 on check the seed's own network "
            "first. " + runbook("DWDSeedWideMeltdown"),
            Query(_PROTECTED),
            steps=((1, ORANGE), (5, RED)),
            none="no leader",
        ),
        stat(
            "Longest protection",
            "For how long the oldest protection has been active. It ends by itself when the nodes renew "
            "their leases again; after an hour somebody should know why they do not. "
            + runbook("DWDMeltdownProtectionTooLong"),
            Query(age(f"min({of(_PROTECTION)})")),
            unit=LONG,
            steps=((900, ORANGE), (3600, RED)),
            none="none",
        ),
        stat(
            "Controllers at 0",
            "Configured controllers with 0 replicas, no matter who did it, of shoots that are probed, or were "
            "left while protected; those of a hibernated shoot do not count. More than the protected "
            "shoots have: somebody scaled by hand, or they are stuck. "
            + runbook("DWDStuckScaledDown"),
            Query(_AT_ZERO),
            steps=((1, ORANGE),),
            none="no leader",
        ),
        stat(
            "Without verdict",
            "The share of the probed shoots whose API server does not answer, or that cannot be probed "
            "for another reason: those are not protected. Many at once: the seed's network, its DNS, or "
            "rights in the shoots. " + runbook("DWDProbeErrorsHigh"),
            Query(f"{_TROUBLED} / ({_PROBING} > 0)"),
            unit=SHARE,
            steps=((0.02, YELLOW), (0.1, RED)),
            none="no shoots",
        ),
        stat(
            "Leaders",
            "Replicas that lead, for each loop: 1 is right. 0: nobody acts. 2 for longer than a hand-over "
            "takes: look at the logs of both. Without --enable-leader-election there is none. "
            + runbook("DWDNoLeader"),
            Query(leading("loop"), "{{loop}}"),
            base=RED,
            steps=((1, GREEN), (2, RED)),
            none="no election",
        ),
        stat(
            "Replicas down",
            "Processes that Prometheus knows of and cannot scrape. " + runbook("DWDDown"),
            Query(or_none(f"count({of('up')} == 0)", f"count({of('up')})")),
            steps=((1, RED),),
            none="no replica",
        ),
        stat(
            "Rights missing",
            "Rights that the configuration needs and the seed does not give; the table in the last row "
            "names them, and GET /api/v1/status. Without one of the prober's it may be that nothing is "
            "protected. Features that are off do not count: some are by design. "
            + runbook("DWDPermissionsMissing"),
            Query(_RIGHTS),
            steps=((1, RED),),
            none="no replica",
        ),
        stat(
            "Decided by people",
            "Pauses, holds and ignore-scaling in force, and entries that cannot be read: there the "
            "watchdog does not do what it would do by itself. `dwd shoots` says who wants that, and why. "
            + runbook("DWDOverrideLongLived"),
            Query(told("dwd_overrides_active", over="kind")),
            steps=((1, BLUE),),
            none="no leader",
        ),
    ),
)

SHOOTS: Final = Row(
    "Shoots",
    (
        graph(
            "Shoots by state",
            "Each shoot of the seed is in one state. Unprotected: cut off, and people keep it from being scaled "
            "down. Protecting and Protected: scaled down. Unreachable: "
            "the API server does not answer, which proves nothing about the nodes, so nothing is done. "
            "Failing: no probe could finish, or scaling failed. Suspect: leases are late, or in endpoint mode the "
            "external path is away. Recovering: its controllers come back. All at 0: nobody leads.",
            Query(told("dwd_shoots", by="state"), "{{state}}"),
            stacked=True,
            colours=COLOURS,
            none="no leader",
            width=12,
        ),
        graph(
            "Protected over time",
            "How many shoots are protected, and how many controllers are at 0. Where the second stays "
            "when the first ends, scaling up fails, or somebody keeps them there.",
            Query(_PROTECTED, "protected shoots"),
            Query(_AT_ZERO, "controllers at 0"),
            colours={"protected shoots": RED, "controllers at 0": ORANGE},
            none="no leader",
            width=12,
        ),
        table(
            "Protected, and since when",
            "Shoots with an active protection, and probed ones with controllers at 0. Without a time it "
            "is not the watchdog that keeps them there. A click on a shoot opens it. "
            + runbook("DWDMeltdownProtectionActive"),
            Query(latest(_PROTECTION, by="namespace") + " * 1000"),
            Query(told_where(_ZEROS, _LOOKED_AFTER, by="namespace", over="namespace")),
            columns={"namespace": "Shoot", "Value #A": "Protected since", "Value #B": "At 0"},
            units={"Protected since": FROM_NOW},
            links={"Shoot": to_shoot()},
            none="no protection is active, and nothing is at 0",
            width=12,
            height=6,
        ),
        graph(
            "Protections begun, controllers left behind",
            "Left behind: controllers that stay scaled down because their shoot is no longer probed; each "
            f"needs a person. {WINDOWS} " + runbook("DWDFlapping"),
            Query(events("dwd_meltdowns_total"), "protections begun"),
            Query(events("dwd_dependents_abandoned_total"), "controllers left behind"),
            bars=True,
            colours={"protections begun": ORANGE, "controllers left behind": RED},
            none="none in this time",
            width=12,
            height=6,
        ),
    ),
)

PROBES: Final = Row(
    "Probes",
    (
        graph(
            "Requests of probes, by result",
            "A probe asks an API server for its version, then for leases, or in endpoint mode for its version "
            "on two paths; runs of endpoint probes count, too. failure: no answer, leases that ask for a "
            "scale-down, an endpoint that is not well; throttled: 429; error: anything else.",
            Query(rate("dwd_probes_total", by="result"), "{{result}}"),
            unit=PER_SECOND,
            stacked=True,
            colours={"success": GREEN, "failure": ORANGE, "throttled": YELLOW, "error": RED},
        ),
        graph(
            "Requests of probes without success",
            "Their share, for each kind. A shoot that is away is a small part of all. A large share of "
            "apiserver or internal: the network of the seed; of lease alone: rights, throttling or storage "
            "in the shoots; of external: load balancers, or our own way out; of endpoint: what the probes "
            "ask. " + runbook("DWDProbeErrorsHigh"),
            Query(share("dwd_probes_total", 'result!="success"', by="probe"), "{{probe}}"),
            unit=SHARE,
            limits=((0.1, RED),),
        ),
        graph(
            "How long they take",
            "Median and 99th percentile. Slow requests alone do no harm; a probe that takes longer than "
            "probeTimeout failed.",
            Query(quantile(0.5, "dwd_probe_duration_seconds", by="probe"), "{{probe}} p50"),
            Query(quantile(0.99, "dwd_probe_duration_seconds", by="probe"), "{{probe}} p99"),
            unit=SECONDS,
        ),
        graph(
            "Probe lag",
            "How late probes begin. For long above a quarter of a second the process has too little CPU: "
            "compare with the lag of the event loop, below. " + runbook("DWDLoopLag"),
            Query(quantile(0.5, "dwd_probe_lag_seconds"), "p50"),
            Query(quantile(0.99, "dwd_probe_lag_seconds"), "p99"),
            unit=SECONDS,
            limits=((0.25, ORANGE),),
        ),
        graph(
            "Detection time",
            "From the instant at which an outage could be known to the first request to scale down; the "
            "mean of the outages in the window of each point. What is above 3 s is missing before nodes "
            "are marked NotReady.",
            Query(mean("dwd_detection_seconds"), "mean"),
            unit=SECONDS,
            points=True,
            limits=((3, ORANGE),),
            none="no outage",
        ),
        stat(
            "Outages detected",
            "In all of the time that is shown. Prometheus reckons it from what it scraped, so it can be a "
            "little off.",
            Query(rise("dwd_detection_seconds_count", within=RANGE), "outages"),
            base=BLUE,
            width=4,
            height=8,
        ),
        stat(
            "Detection in this time",
            "Median and 99th percentile of all outages in the time that is shown, made of the buckets of "
            "the histogram: p99 is to stay below 3 s.",
            Query(quantile(0.5, "dwd_detection_seconds", within=RANGE), "p50"),
            Query(quantile(0.99, "dwd_detection_seconds", within=RANGE), "p99"),
            unit=SECONDS,
            steps=((3, ORANGE), (8, RED)),
            none="no outage",
            width=4,
            height=8,
        ),
    ),
)
