"""Changes as lines: one each, who it is about first; pure."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from rich.text import Text

from app.cli import answers
from app.cli.answers import Decision, OverrideChange, RunningRecovery, WeederChange
from app.cli.views import endpoints
from app.cli.views.layout import change, said

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
}


class Words(NamedTuple):
    """An event, in words."""

    subject: str
    """Whom it is about."""
    text: str
    style: str = ""


def told(name: str, data: object, clock: str) -> Text | None:
    """An event; None for one that only says that the stream goes on."""
    if name == "snapshot-end":
        return None
    words = _TELLERS[name](data) if name in _TELLERS else Words(name, _UNKNOWN, "dim")
    line = Text.assemble((clock, "dim"), "  ", (said(words.subject), "bold"), "  ")
    line.append(said(words.text), words.style)
    return line


_UNKNOWN: Final = "(this program does not know such events)"


def _shoot(data: object) -> Words:
    shoot = answers.of(answers.Shoot, data)
    probes = endpoints.summary(shoot)
    text = "; ".join(filter(None, (f"{shoot.state} ({shoot.reason}): {shoot.message}", probes)))
    return Words(shoot.namespace, text, _STYLES.get(shoot.state, ""))


def _gone(data: object) -> Words:
    return Words(answers.of(answers.Told, data).namespace or "?", "is gone", "dim")


def _gap(data: object) -> Words:
    reason = answers.of(answers.Told, data).reason
    return Words("gap", f"{reason}; what follows is how things are now", "yellow")


def _end(data: object) -> Words:
    return Words("end", answers.of(answers.Told, data).reason, "yellow")


def _operation(data: object) -> Words:
    operation = answers.of(answers.Operation, data)
    steps = [
        f"{each.resource} {change(each.before, each.after)} {each.phase}"
        for each in operation.steps
        if each.phase not in {"Waiting", ""}
    ]
    what = f"scale {operation.direction} {operation.phase} ({operation.id})"
    words = "; ".join(filter(None, (what, operation.message, *steps)))
    return Words(operation.namespace, words, _STYLES.get(operation.phase, ""))


def _service(data: object) -> Words:
    service = answers.of(WeederChange, data)
    ready = "is ready" if service.ready else "is not ready"
    found = [ready, f"failing: {service.failing}" if service.failing else ""]
    if service.recovery is not None:
        found.append(_recovery(service.recovery))
    return Words(f"{service.namespace}/{service.service}", "; ".join(filter(None, found)))


def _recovery(recovery: RunningRecovery) -> str:
    how = recovery.end or recovery.phase
    counts = f"{recovery.deletions} deleted, {recovery.queued} wait, {recovery.spared} spared"
    trouble = f", {recovery.trouble}" if recovery.trouble else ""
    return f"recovery {how}: {counts}{trouble}"


def _override(data: object) -> Words:
    override = answers.of(OverrideChange, data)
    return Words(override.namespace or "all shoots", _decided(override), "yellow")


def _decided(override: OverrideChange) -> str:
    what = f"{override.kind} of {override.resource}" if override.resource else override.kind
    by = f" by {override.author}" if override.author else ""
    match override.after:
        case Decision() as decision:
            kind = decision.scope or decision.direction
            shown = f" {kind}" if kind else ""
            return f"{what}{shown}{by} until {decision.until}: {decision.reason}"
        case True:
            return f"{what} set{by}"
        case _:
            return f"{what} ended{by}"


_TELLERS: Final[Mapping[str, Callable[[object], Words]]] = {
    "shoot": _shoot,
    "shoot-gone": _gone,
    "operation": _operation,
    "weeder": _service,
    "override": _override,
    "gap": _gap,
    "end": _end,
}
