"""What endpoint probes have found out of a shoot, as lines; pure."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from app.cli.answers import EndpointProbe, EndpointTarget, Gate, Shoot
from app.cli.views.layout import Cell, said, since, table

_STYLES: Final = {"Success": "green", "Failure": "red", "Unknown": "yellow"}
_CLOSED: Final = "Closed"
_CLOSED_STYLE: Final = "yellow"


def gates(found: Sequence[Gate], now: float) -> list[tuple[str, Cell]]:
    """Each gate: why it is closed or open, and for how long."""
    return [("gate", _gate(each, now)) for each in found]


def _gate(gate: Gate, now: float) -> Cell:
    text = f"{said(gate.message or gate.name)} ({said(gate.state)} for {since(gate.since, now)})"
    return Cell(text, _CLOSED_STYLE if gate.state == _CLOSED else "")


def probes(shoot: Shoot, now: float) -> list[Text]:
    """A table of the probes and their targets; nothing where there are none."""
    if not shoot.endpoint_probes:
        return []
    heads = ("PROBE", "TARGET", "TYPE", "RESULT", "FOR", "LAST RUN", "NOTES")
    lines = table(heads, [_row(each, now) for each in shoot.endpoint_probes])
    more = shoot.endpoint_probes_total - len(shoot.endpoint_probes)
    return [*lines, Text(f"and {more} more, which are no worse")] if more > 0 else lines


def summary(shoot: Shoot) -> str:
    """What of them somebody may want to know; nothing where all is well."""
    failing = sum(each.counted and each.result == "Failure" for each in shoot.endpoint_probes)
    closed = ", ".join(each.name for each in shoot.gates if each.state == _CLOSED)
    words = (
        f"endpoint probes: {failing} failing" if failing else "",
        f"gate closed: {closed}" if closed else "",
    )
    return "; ".join(filter(None, words))


def _row(probe: EndpointProbe, now: float) -> list[Cell | str]:
    return [
        probe.name,
        _target(probe.target),
        probe.type,
        Cell(probe.result, _STYLES.get(probe.result, "")),
        since(probe.since, now),
        _last(probe, now),
        _notes(probe),
    ]


def _target(target: EndpointTarget) -> str:
    return target.host or "/".join(filter(None, (target.pod, target.container)))


def _last(probe: EndpointProbe, now: float) -> str:
    if probe.last_time is None:
        return "not yet"
    outcome = f": {probe.last_result}" if probe.last_result else ""
    return f"{since(probe.last_time, now)} ago{outcome}"


def _notes(probe: EndpointProbe) -> str:
    notes = {
        "gate closed": probe.gate == _CLOSED,
        "gate": probe.gate is not None and probe.gate != _CLOSED,
        "not counted": not probe.counted,
        f"waits: {probe.waiting}": probe.waiting is not None,
        probe.message: bool(probe.message),
    }
    return ", ".join(note for note, applies in notes.items() if applies)
