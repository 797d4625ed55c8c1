"""Of the seed's dashboard: what people decided, what API servers answered, and how the processes are."""

from typing import Final

from hack.dashboards.grafana import Query, Row
from hack.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PER_SECOND,
    PURPLE,
    RED,
    SECONDS,
    YELLOW,
    graph,
    table,
    timeline,
)
from hack.dashboards.queries import SEED, age, events, leading, of, quantile, rate, rise, told
from hack.dashboards.variables import runbook

_CONTACT: Final = "dwd_watch_last_contact_timestamp_seconds"

PEOPLE: Final = Row(
    "People",
    (
        graph(
            "Overrides in force",
            "Where somebody keeps the watchdog's hands off. global-pause: of all shoots. invalid: Pauses "
            "that this version cannot read; each pauses with scope all. "
            + runbook("DWDOverridesInvalid"),
            Query(told("dwd_overrides_active", by="kind"), "{{kind}}"),
            stacked=True,
            colours={
                "pause": BLUE,
                "global-pause": PURPLE,
                "hold": YELLOW,
                "ignore-scaling": GREY,
                "invalid": RED,
            },
            none="no leader",
        ),
        graph(
            "Calls of the API, by status",
            "Requests to the REST API, without health and metrics. 401 and 403: see beside; 429: a caller "
            "asks too often; 503: a standby was asked, or the seed does not answer.",
            Query(rate("http_requests_total", by="status"), "{{status}}"),
            unit=PER_SECOND,
            stacked=True,
            none="nobody has called",
        ),
        graph(
            "Who may call",
            "What was decided of callers. denied: known, without the right; unauthenticated: no token that "
            "counts; unavailable: the seed could not be asked. " + runbook("DWDAuthDenials"),
            Query(rate("dwd_auth_decisions_total", by="decision"), "{{decision}}"),
            unit=PER_SECOND,
            stacked=True,
            colours={"allowed": GREEN, "denied": RED, "unauthenticated": ORANGE},
        ),
    ),
)

REQUESTS: Final = Row(
    "Requests to API servers",
    (
        graph(
            "Requests, by answer",
            "To the seed's API server and to those of the shoots. 401 of a shoot: its token was rotated, "
            "the new one is read at once. <error>: no answer.",
            Query(rate("rest_client_requests_total", by="host, code"), "{{host}} {{code}}"),
            unit=PER_SECOND,
            stacked=True,
        ),
        graph(
            "How long they take, p99",
            "For each verb. Of the seed's API server this is the time that scaling takes, too; a watch "
            "counts until its answer begins.",
            Query(
                quantile(0.99, "rest_client_request_duration_seconds", by="host, verb"),
                "{{host}} {{verb}}",
            ),
            unit=SECONDS,
        ),
        graph(
            "Throttled",
            "Answers 429. Of the seed: raise its limits for this user, or lower --kube-api-qps; of a "
            "shoot: its API server is busy, and is asked less often. " + runbook("DWDThrottled"),
            Query(rate("dwd_throttled_requests_total", by="host"), "{{host}}"),
            unit=PER_SECOND,
            colours={"seed": RED, "shoot": ORANGE},
            none="never",
        ),
        graph(
            "Answers cut off",
            "size, time, depth, count or crumbs: what an API server sent was more than is taken. One shoot "
            "at a time; its state says which. Probes are put off where answers take more than their share "
            "of the process's time. " + runbook("DWDResponseLimitHit"),
            Query(events("dwd_response_limit_hits_total", by="limit"), "{{limit}}"),
            Query(rise("dwd_probes_postponed_total"), "probes put off"),
            bars=True,
            none="none in this time",
            width=6,
        ),
        graph(
            "Kubeconfigs refused",
            "Kubeconfigs that ask for something that is not done, such as running a command, or that "
            "cannot be read. The state of the shoot says which field. "
            + runbook("DWDCredentialsRejected"),
            Query(events("dwd_credentials_rejected_total", by="reason"), "{{reason}}"),
            bars=True,
            none="none in this time",
            width=6,
        ),
        graph(
            "Watches opened again",
            "Watches of the seed that broke. A restart of its API server breaks all of them once; again "
            "and again: look at the way to it. " + runbook("DWDWatchFlapping"),
            Query(
                events("dwd_watch_restarts_total", by="kind, reason"),
                "{{kind}} {{reason}}",
            ),
            bars=True,
            none="none in this time",
            width=6,
        ),
        graph(
            "Last word of each watch",
            "How long ago each watch last heard of the seed's API server; the process that has waited "
            "longest. More than a few minutes: what we know may be old, and nothing is scaled on it. "
            + runbook("DWDWatchFlapping"),
            Query(
                f"max by (kind) ({age(f'({of(_CONTACT)} > 0)')})",
                "{{kind}}",
            ),
            unit=SECONDS,
            width=6,
        ),
    ),
)

PROCESS: Final = Row(
    "The processes",
    (
        timeline(
            "Who leads",
            "A lane for each replica and loop: exactly one leads. A change is a hand-over, which takes a "
            "few seconds; many of them: look at the latency of the seed's API server. "
            + runbook("DWDMultipleLeaders"),
            Query(leading("loop, instance"), "{{loop}} {{instance}}"),
            words={0: ("standby", GREY), 1: ("leads", GREEN)},
            none="no election",
        ),
        timeline(
            "Up",
            "A lane for each process that Prometheus knows of. " + runbook("DWDDown"),
            Query(f"max by ({SEED}, job, instance) ({of('up')})", "{{job}} {{instance}}"),
            words={0: ("down", RED), 1: ("up", GREEN)},
            none="no replica",
        ),
        graph(
            "Lag of the event loop",
            "How late the loop comes back to a timer, sampled twice a second. For long above 100 ms: give "
            "the process more CPU. " + runbook("DWDLoopLag"),
            Query(quantile(0.5, "dwd_event_loop_lag_seconds", by="job"), "{{job}} p50"),
            Query(quantile(0.99, "dwd_event_loop_lag_seconds", by="job"), "{{job}} p99"),
            unit=SECONDS,
            limits=((0.1, ORANGE),),
        ),
        graph(
            "Clock against the seed's",
            "Our wall clock minus that of the seed's API server. From 5 s on correct the clock: "
            "pauses and holds end by it, too early or too late. Verdicts do not depend on it. It is known "
            "to half a second. " + runbook("DWDClockSkew"),
            Query(f"max by ({SEED}, instance) ({of('dwd_clock_skew_seconds')})", "{{instance}}"),
            unit=SECONDS,
            signed=True,
            limits=((5, ORANGE),),
        ),
        graph(
            "Failures of our own",
            "Runners that failed unexpectedly and were started again, warnings about flags and "
            "configuration, and Kubernetes Events that were never written. The first is a mistake in the "
            "program: the log has the traceback. " + runbook("DWDRunnerFailures"),
            Query(
                f"{rise('dwd_runner_failures_total')} or 0 * sum({of('dwd_build_info')})",
                "runners failed",
            ),
            Query(f"sum({of('dwd_config_warnings')})", "warnings about the configuration"),
            Query(rise("dwd_events_lost_total"), "Events lost"),
            colours={
                "runners failed": RED,
                "warnings about the configuration": YELLOW,
                "Events lost": GREY,
            },
        ),
        table(
            "Rights that are missing",
            "Each right that the configuration needs and the process does not have. Grant it (the chart's "
            "ClusterRoles have all); asked again once an hour. " + runbook("DWDPermissionsMissing"),
            Query(told("dwd_missing_permissions", by="verb, resource")),
            columns={"verb": "Verb", "resource": "Resource", "Value": "Seeds"},
            none="none is missing",
            height=5,
        ),
        table(
            "Features that are off",
            "What is forbidden, or lacks what it needs: the rest goes on without it. By design: "
            "metadata-scan always, as the chart does not grant what it needs; api and leader-address "
            "until the API is served to others. GET /api/v1/status says why each is off. "
            + runbook("DWDPermissionsMissing"),
            Query(told("dwd_feature_off", by="feature") + " > 0"),
            columns={"feature": "Feature", "Value": "Seeds"},
            none="all features are on",
            height=5,
        ),
        table(
            "What runs",
            "Versions, and how many processes have each. More than one version: an update is under way, "
            "or it is stuck.",
            Query(f"count by (job, version, python) ({of('dwd_build_info')})"),
            columns={
                "job": "Job",
                "version": "Version",
                "python": "Python",
                "Value": "Processes",
            },
            none="no replica",
            height=5,
        ),
    ),
)
