"""The dashboard of one shoot: what is true of it, what was seen, what was done, and what people decided."""

from typing import Final

from hack.dashboards.grafana import Dashboard, Query, Row, link
from hack.dashboards.panels import (
    BLUE,
    FROM_NOW,
    GREEN,
    GREY,
    LONG,
    ORANGE,
    RED,
    SECONDS,
    SHARE,
    TIME,
    WINDOWS,
    YELLOW,
    graph,
    stat,
    table,
    text,
    timeline,
)
from hack.dashboards.queries import ONE_SHOOT, age, events, latest, of, or_none
from hack.dashboards.states import NUMBERS, WORDS
from hack.dashboards.variables import SHOOT_UID, runbook, variables_of_shoot

_NEEDS: Final = "not probed, or --per-shoot-metrics is off"
_STATE: Final = "dwd_shoot_state"
_LEASES: Final = "dwd_shoot_node_leases"
_SEEN: Final = latest(_STATE, ONE_SHOOT)
_LAST_LOOK: Final = age(latest("dwd_shoot_last_probe_timestamp_seconds", ONE_SHOOT))
_AT_ZERO: Final = or_none(latest("dwd_shoot_dependents_at_zero", ONE_SHOOT), _SEEN)
_START: Final = latest("dwd_shoot_protection_start_timestamp_seconds", ONE_SHOOT)
_ENDS: Final = ("dwd_override_expiry_timestamp_seconds", 'namespace=~"$namespace|_all"')
_EXPIRED: Final = latest(_LEASES, ONE_SHOOT, 'state="expired"')
_PROBED: Final = {0: ("not well", RED), 1: ("well", GREEN)}
_COUNTING: Final = latest(_LEASES, ONE_SHOOT, 'state!="excluded"', by="state")


def _numbered() -> str:
    """The state as a number; the worst, where two processes tell different ones for a moment."""
    states = ((number, f'state="{state}"') for state, number in NUMBERS.items())
    return f"min({' or '.join(f'{number} * {of(_STATE, ONE_SHOOT, each)}' for number, each in states)})"


_LINKS: Final = """\
Why is it in this state, and what was done, by whom?

- [What is known of this shoot](${api}/api/v1/shoots/${namespace}): its message has the numbers
- [Its history](${api}/api/v1/shoots/${namespace}/history): every verdict, every controller scaled
- [Its nodes](${api}/api/v1/shoots/${namespace}/nodes): which leases count, and why others do not
- [Recoveries of the weeder](${api}/api/v1/weeders?namespace=${namespace})
- [Runbook](${runbook})

From a terminal:

    dwd shoots ${namespace} --nodes --history
    dwd pause ${namespace} --reason "…" --for 1h
    kubectl -n ${namespace} get events
"""

NOW: Final = Row(
    "Now",
    (
        stat(
            "State",
            "Unprotected: its nodes are cut off, and a pause, a hold or ignore-scaling keeps its controllers up. "
            "Protected: its controllers are at 0, as its nodes cannot reach their API server. "
            "Unreachable: the API server does not answer, so nothing is done. Failing: no probe could "
            "finish, or scaling failed. Suspect: leases are late, or the external path is away. NotProbed: "
            "hibernated, being deleted, migrating; the API says which.",
            Query(_numbered()),
            words=WORDS,
            base=GREY,
            none=_NEEDS,
            width=4,
        ),
        stat(
            "Protected for",
            "Since the active protection began, also of a shoot that is no longer probed. It ends when "
            "three probes in a row find leases renewed; in endpoint mode, when the external path answers. "
            + runbook("DWDMeltdownProtectionActive"),
            Query(age(_START)),
            unit=LONG,
            steps=((900, ORANGE), (3600, RED)),
            none="not protected",
            width=4,
        ),
        stat(
            "Controllers at 0",
            "Configured controllers of this shoot with 0 replicas, no matter who did it. In state Healthy there "
            "should be none; those of a hibernated shoot (NotProbed) are normal. "
            + runbook("DWDStuckScaledDown"),
            Query(_AT_ZERO),
            steps=((1, ORANGE),),
            none=_NEEDS,
            width=4,
        ),
        stat(
            "Leases expired",
            "The share of the leases that count, when they could last be read. From "
            "nodeLeaseFailureFraction (60 % by default) on the shoot is cut off from its nodes, and its "
            "controllers are scaled down. " + runbook("DWDLeasesLate"),
            Query(f"{_EXPIRED} / (sum({_COUNTING}) > 0)"),
            unit=SHARE,
            steps=((0.2, YELLOW), (0.6, RED)),
            none="no reading, or endpoint mode",
            width=4,
        ),
        stat(
            "Last probe",
            "How long ago it ended, as of the last scrape: a probe interval and a scrape interval are "
            "normal. Minutes: its prober is stuck, or the process has no CPU. "
            + runbook("DWDProbesStalled"),
            Query(_LAST_LOOK),
            unit=SECONDS,
            steps=((120, YELLOW), (300, RED)),
            none=_NEEDS,
            width=4,
        ),
        stat(
            "Decided by people",
            "Pauses (of all shoots, too), holds and ignore-scaling that are in force here: the table "
            "below says until when.",
            Query(or_none(f"count({latest(*_ENDS, by='namespace, kind')})", _SEEN)),
            steps=((1, BLUE),),
            none=_NEEDS,
            width=4,
        ),
    ),
)

OVER_TIME: Final = Row(
    "Over time",
    (
        timeline(
            "State over time",
            "The one state that the shoot was in. Red and back again several times: the path to its nodes "
            "flaps. " + runbook("DWDFlapping"),
            Query(_numbered(), "state"),
            words=WORDS,
            none=_NEEDS,
            width=24,
            height=4,
        ),
        timeline(
            "Endpoint probes over time",
            "What is asked beside the verdict: green while all targets that have a counted result are well, red "
            "while one is not. One with effect GateScaleDown keeps a scale-down from starting while all its "
            "targets fail; the API says which gate is closed. "
            + runbook("DWDEndpointProbeFailing"),
            Query(latest("dwd_endpoint_probe_success", ONE_SHOOT, by="name"), "{{name}}"),
            words=_PROBED,
            none="none configured, no result yet, or --per-shoot-metrics is off",
            width=24,
            height=4,
        ),
        graph(
            "Leases of its nodes",
            "Of the last probe that could read them. expired ones count against the limit; unknown: not "
            "seen for long enough to tell; excluded: nodes that do not count, such as new ones, or those "
            "being deleted. All expiring at once is the path, one by one are nodes.",
            Query(latest(_LEASES, ONE_SHOOT, by="state"), "{{state}}"),
            stacked=True,
            colours={"fresh": GREEN, "expired": RED, "unknown": YELLOW, "excluded": GREY},
            none=_NEEDS,
            width=12,
        ),
        graph(
            "Controllers at 0, and for how long it is protected",
            "The steps of a scale-down and of the way back: one level after the other. The line grows "
            "while protection is active.",
            Query(_AT_ZERO, "controllers at 0"),
            Query(f"{age(_START)} / 60", "minutes of protection"),
            colours={"controllers at 0": ORANGE, "minutes of protection": RED},
            none=_NEEDS,
            width=12,
        ),
    ),
)

DONE: Final = Row(
    "What was seen, and done",
    (
        graph(
            "Requests of probes without success",
            "apiserver: it did not answer; lease: the leases could not be read, or ask for a scale-down. In "
            "endpoint mode internal and external: the path did not answer. endpoint: runs of endpoint probes. "
            f"{WINDOWS} " + runbook("DWDProbeErrorsHigh"),
            Query(
                events("dwd_shoot_probe_failures_total", ONE_SHOOT, by="probe"),
                "{{probe}}",
            ),
            bars=True,
            none="none in this time",
        ),
        graph(
            "Scaling runs begun",
            f"Down and up, by the watchdog or by hand. {WINDOWS} Many of both: the shoot flaps. "
            + runbook("DWDFlapping"),
            Query(
                events("dwd_shoot_scale_attempts_total", ONE_SHOOT, by="direction"),
                "{{direction}}",
            ),
            bars=True,
            colours={"down": ORANGE, "up": GREEN},
            none="none in this time",
        ),
        graph(
            "Since the last probe",
            "How old what is known was. A healthy shoot is probed every probeInterval, one in doubt "
            "every few seconds. " + runbook("DWDProbesStalled"),
            Query(_LAST_LOOK, "since the last probe"),
            unit=SECONDS,
            none=_NEEDS,
        ),
    ),
)

PEOPLE: Final = Row(
    "People, and where to go on",
    (
        table(
            "Overrides in force",
            "What keeps the watchdog's hands off this shoot, and when it ends by itself (_all: the pause "
            "of all shoots). dwd shoots says who set it and why; dwd resume ends a pause. "
            + runbook("DWDOverrideLongLived"),
            Query(latest(*_ENDS, by="namespace, kind") + " * 1000"),
            Query(latest(*_ENDS, by="namespace, kind") + " * 1000"),
            columns={
                "kind": "What",
                "namespace": "Of",
                "Value #A": "Ends",
                "Value #B": "At",
            },
            units={"Ends": FROM_NOW, "At": TIME},
            none="none",
            width=24,
            height=3,
        ),
        text(
            "Where to go on",
            "Links to the REST API and to the runbook.",
            _LINKS,
            width=24,
            height=7,
        ),
    ),
)


def one_shoot() -> Dashboard:
    """One shoot, which is chosen at the top."""
    return Dashboard(
        uid=SHOOT_UID,
        title="Dependency watchdog / Shoot",
        about="One shoot: what is true of it, what was seen and done, and what people decided.",
        variables=variables_of_shoot(),
        rows=(NOW, OVER_TIME, DONE, PEOPLE),
        links=(
            link(
                "API", "${api}/api/v1/shoots/${namespace}", "What the watchdog knows of this shoot."
            ),
            link("Runbook", "${runbook}", "What each alert means, and what to do."),
        ),
    )
