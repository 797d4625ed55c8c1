"""A process of the watchdog, and who tried to change what through it, as lines; pure."""

from typing import Final

from rich.text import Text

from app.cli.answers import Audit, AuditEntry, ConfigFinding, MissingPermission, Status
from app.cli.views.layout import Cell, fields, said, since, table
from app.cli.views.shoots import paused

_LOUD: Final = "yellow"


def status(found: Status, now: float) -> list[Text]:
    """What it is, who leads, and what deserves a look."""
    role = f"{said(found.role)}, in a dry run" if found.dry_run else said(found.role)
    head = Text.assemble((role, "bold"), f"  dependency-watchdog {said(found.version)}")
    head.append(f", since {said(found.started_at)}, {since(found.started_at, now)} ago")
    facts: list[tuple[str, Cell | str]] = []
    for loop, leader in found.leaders.items():
        address = f" at {leader.address}" if leader.address else ""
        known = f"led by {leader.identity}{address}" if leader.identity else "led by nobody"
        facts.append((loop, known))
    facts.append(("shoots", _counts(found)))
    if found.pause is not None:
        facts.append(("pause", Cell(paused(found.pause, now), _LOUD)))
    troubles = {
        "off": [f"{each.feature}: {each.reason}" for each in found.features_off],
        "no right": [_right(each) for each in found.missing_permissions],
        "warning": [_finding(each) for each in found.config_warnings],
        "unknown": [
            f"{each} carries the meltdown key and is not configured"
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
    """`patch deployments.apps kube-controller-manager in all namespaces: needed to protect`."""
    resource = ".".join(filter(None, (lacking.resource, lacking.group)))
    what = " ".join(filter(None, (lacking.verb, resource, lacking.name)))
    where = f"in {lacking.namespace}" if lacking.namespace else "in all namespaces"
    why = f"feature {lacking.feature} is off" if lacking.feature else "needed to protect"
    return f"{what} {where}: {why}"


def audit(found: Audit) -> list[Text]:
    """Attempts, newest first; in the end since when they are known."""
    heads = ("TIME", "CALLER", "FROM", "ACTION", "SHOOT", "TARGET", "STATUS", "TIMES", "REASON")
    lines = table(heads, [_attempt(each) for each in found.items]) if found.items else []
    return [*lines, Text(f"All since {said(found.metadata.since)}; what was before is in the log.")]


def _attempt(entry: AuditEntry) -> list[Cell | str]:
    bad = entry.status is None or entry.status >= 400  # noqa: PLR2004 - the first of HTTP's errors
    return [
        *(entry.time or "", entry.caller or "", entry.peer),
        entry.action or f"{entry.method} {entry.path}",
        *(entry.namespace or "", entry.target or ""),
        Cell("" if entry.status is None else str(entry.status), "red" if bad else "green"),
        *(str(entry.times), entry.reason or ""),
    ]
