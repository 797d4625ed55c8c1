"""Events, the status of a process, and the audit as lines; pure."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from rich.text import Text

from app.cli import answers
from app.cli.answers import (
    Audit,
    AuditEntry,
    ConfigFinding,
    MissingPermission,
    OverrideChange,
    PauseOrHold,
    RunningRecovery,
    Status,
    WeederChange,
)
from app.cli.views import shoots
from app.cli.views.layout import Cell, change, fields, said, since, table, written_by
from app.cli.views.shoots import is_named, paused

_STYLES: Final = {
    "Unprotected": "bold white on red",
    "Protected": "bold magenta",
    "Protecting": "bold red",
    "Recovering": "cyan",
    "Unreachable": "red",
    "Failing": "red",
    "Failed": "bold red",
    "Suspect": "yellow",
    "Healthy": "green",
    "Done": "green",
    "Refused": "yellow",
}


class EventText(NamedTuple):
    """An event in words."""

    subject: str
    """The shoot or service that the event is about."""
    text: str
    style: str = ""


def told(name: str, data: object, clock: str) -> Text | None:
    """The line for an event; None for `snapshot-end`, which people need not see.

    Args:
        name: The name of the event.
        data: Its decoded JSON.
        clock: The time of day to show.
    """
    if name == "snapshot-end":
        return None
    words = _TELLERS[name](data) if name in _TELLERS else EventText(name, _UNKNOWN, "dim")
    line = Text.assemble((clock, "dim"), "  ", (said(words.subject), "bold"), "  ")
    line.append(said(words.text), words.style)
    return line


_UNKNOWN: Final = "(unknown to this version of dwd)"


def _shoot(data: object) -> EventText:
    shoot = answers.of(answers.Shoot, data)
    probes = shoots.summary(shoot)
    text = "; ".join(filter(None, (f"{shoot.state} ({shoot.reason}): {shoot.message}", probes)))
    return EventText(shoot.namespace, text, _STYLES.get(shoot.state, ""))


def _gone(data: object) -> EventText:
    return EventText(answers.of(answers.StreamMessage, data).namespace or "?", "is gone", "dim")


def _gap(data: object) -> EventText:
    reason = answers.of(answers.StreamMessage, data).reason
    return EventText("gap", f"{reason}; the current state follows", "yellow")


def _end(data: object) -> EventText:
    return EventText("end", answers.of(answers.StreamMessage, data).reason, "yellow")


def _operation(data: object) -> EventText:
    operation = answers.of(answers.Operation, data)
    steps = [
        f"{each.resource} {change(each.before, each.after)} {each.phase}"
        for each in operation.steps
        if each.phase not in {"Waiting", ""}
    ]
    what = f"scale {operation.direction} {operation.phase} ({operation.id})"
    words = "; ".join(filter(None, (what, operation.message, *steps)))
    return EventText(operation.namespace, words, _STYLES.get(operation.phase, ""))


def _service(data: object) -> EventText:
    service = answers.of(WeederChange, data)
    ready = "is ready" if service.ready else "is not ready"
    found = [ready, f"failing: {service.failing}" if service.failing else ""]
    if service.recovery is not None:
        found.append(_recovery(service.recovery))
    return EventText(f"{service.namespace}/{service.service}", "; ".join(filter(None, found)))


def _recovery(recovery: RunningRecovery) -> str:
    how = recovery.end or recovery.phase
    counts = f"{recovery.deletions} deleted, {recovery.queued} wait, {recovery.spared} spared"
    trouble = f", {recovery.trouble}" if recovery.trouble else ""
    return f"recovery {how}: {counts}{trouble}"


def _override(data: object) -> EventText:
    override = answers.of(OverrideChange, data)
    return EventText(override.namespace or "all shoots", _decided(override), "yellow")


def _decided(override: OverrideChange) -> str:
    what = f"{override.kind} of {override.resource}" if override.resource else override.kind
    by = f" by {override.author}" if override.author else ""
    match override.after:
        case PauseOrHold() as decision:
            kind = decision.scope or decision.direction
            shown = f" {kind}" if kind else ""
            if override.author and override.author == decision.author:
                by = f" by {written_by(override.author, verified=decision.verified)}"
            named = f" (Pause {decision.name})" if is_named(decision.name) else ""
            return f"{what}{shown}{by} until {decision.until}: {decision.reason}{named}"
        case True:
            return f"{what} set{by}"
        case _:
            return f"{what} ended{by}"


_TELLERS: Final[Mapping[str, Callable[[object], EventText]]] = {
    "shoot": _shoot,
    "shoot-gone": _gone,
    "operation": _operation,
    "weeder": _service,
    "override": _override,
    "gap": _gap,
    "end": _end,
}


# Status and audit.


_LOUD: Final = "yellow"


def status(found: Status, now: float) -> list[Text]:
    """Role, leaders, number of shoots by state, and troubles."""
    role = f"{said(found.role)}, in a dry run" if found.dry_run else said(found.role)
    head = Text.assemble((role, "bold"), f"  dependency-watchdog {said(found.version)}")
    head.append(f", since {said(found.started_at)}, {since(found.started_at, now)} ago")
    facts: list[tuple[str, Cell | str]] = []
    for loop, leader in found.leaders.items():
        address = f" at {leader.address}" if leader.address else ""
        known = f"led by {leader.identity}{address}" if leader.identity else "no leader"
        facts.append((loop, known))
    facts.append(("shoots", _counts(found)))
    if found.pause is not None:
        facts.append(("pause", Cell(paused(found.pause, now), _LOUD)))
    troubles = {
        "off": [f"{each.feature}: {each.reason}" for each in found.features_off],
        "no right": [_right(each) for each in found.missing_permissions],
        "warning": [_finding(each) for each in found.config_warnings],
        "unknown": [
            f"{each} carries the meltdown key but is not configured"
            for each in found.found_unconfigured
        ],
        "no pods": [
            f"{each} has matched no pod for an hour" for each in found.selectors_without_pods
        ],
    }
    facts += [(name, Cell(text, _LOUD)) for name, texts in troubles.items() for text in texts]
    return [head, *fields(facts)]


def _counts(found: Status) -> str:
    if found.counts is None:
        return "only the prober's leader knows"
    there = {state: number for state, number in found.counts.items() if number}
    return ", ".join(f"{number} {state}" for state, number in there.items()) or "none"


def _finding(found: ConfigFinding) -> str:
    line = "" if found.line is None else f"line {found.line}"
    return ": ".join(filter(None, (found.path, line, found.message)))


def _right(lacking: MissingPermission) -> str:
    """A missing permission: `patch deployments.apps kube-controller-manager in all namespaces: needed to protect`."""
    resource = ".".join(filter(None, (lacking.resource, lacking.group)))
    what = " ".join(filter(None, (lacking.verb, resource, lacking.name)))
    where = f"in {lacking.namespace}" if lacking.namespace else "in all namespaces"
    why = f"feature {lacking.feature} is off" if lacking.feature else "needed to protect"
    return f"{what} {where}: {why}"


def audit(found: Audit) -> list[Text]:
    """A table of audit records; the last line says since when the process has kept them."""
    heads = (
        "TIME",
        "CALLER",
        "CLAIMED",
        "FROM",
        "ACTION",
        "SHOOT",
        "TARGET",
        "STATUS",
        "TIMES",
        "REASON",
    )
    lines = table(heads, [_attempt(each) for each in found.items]) if found.items else []
    return [*lines, Text(f"All since {said(found.metadata.since)}; the log has what came before.")]


def _attempt(entry: AuditEntry) -> list[Cell | str]:
    bad = entry.status is None or entry.status >= 400  # noqa: PLR2004 - the first of HTTP's errors
    return [
        *(entry.time or "", entry.caller or "", entry.claimed or "", entry.peer),
        entry.action or f"{entry.method} {entry.path}",
        *(entry.namespace or "", entry.target or ""),
        Cell("" if entry.status is None else str(entry.status), "red" if bad else "green"),
        *(str(entry.times), entry.reason or ""),
    ]
