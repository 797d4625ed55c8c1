"""Shoots as lines: a table of all, one in detail, its nodes and its history; pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.text import Text

from app.cli.answers import (
    EndpointProbe,
    EndpointTarget,
    Gate,
    HistoryEntry,
    Hold,
    Leases,
    Node,
    Pause,
    Probe,
    Resource,
    Shoot,
)
from app.cli.views.layout import (
    Cell,
    clock,
    count,
    fields,
    said,
    since,
    span,
    table,
    until,
    written_by,
)

# Endpoint probes.


_RESULT_STYLES: Final = {"Success": "green", "Failure": "red", "Unknown": "yellow"}
_CLOSED: Final = "Closed"
_CLOSED_STYLE: Final = "yellow"


def gates(found: Sequence[Gate], now: float) -> list[tuple[str, Cell]]:
    """Each gate: open or closed, why, and for how long."""
    return [("gate", _gate(each, now)) for each in found]


def _gate(gate: Gate, now: float) -> Cell:
    text = f"{said(gate.message or gate.name)} ({said(gate.state)} for {since(gate.since, now)})"
    return Cell(text, _CLOSED_STYLE if gate.state == _CLOSED else "")


def probes(shoot: Shoot, now: float) -> list[Text]:
    """A table of endpoint probes and their targets; empty if there are none."""
    if not shoot.endpoint_probes:
        return []
    heads = ("PROBE", "TARGET", "TYPE", "RESULT", "FOR", "LAST RUN", "NOTES")
    lines = table(heads, [_endpoint_row(each, now) for each in shoot.endpoint_probes])
    more = shoot.endpoint_probes_total - len(shoot.endpoint_probes)
    return [*lines, Text(f"and {more} more, which are no worse")] if more > 0 else lines


def summary(shoot: Shoot) -> str:
    """Failing endpoint probes and closed gates in a few words; empty if all is well."""
    failing = sum(each.counted and each.result == "Failure" for each in shoot.endpoint_probes)
    closed = ", ".join(each.name for each in shoot.gates if each.state == _CLOSED)
    words = (
        f"endpoint probes: {failing} failing" if failing else "",
        f"gate closed: {closed}" if closed else "",
    )
    return "; ".join(filter(None, words))


def _endpoint_row(probe: EndpointProbe, now: float) -> list[Cell | str]:
    return [
        probe.name,
        _target(probe.target),
        probe.type,
        Cell(probe.result, _RESULT_STYLES.get(probe.result, "")),
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


_STYLES: Final = {
    "Unprotected": "bold white on red",
    "Protected": "bold magenta",
    "Protecting": "bold red",
    "Recovering": "cyan",
    "Unreachable": "red",
    "Failing": "red",
    "Suspect": "yellow",
    "Pending": "dim",
    "Healthy": "green",
    "NotProbed": "dim",
    "True": "green",
    "False": "red",
    "Fresh": "green",
    "Expired": "red",
    "Unknown": "yellow",
    "Missing": "yellow",
}
_LOUD: Final = "yellow"
# A condition that only a shoot in endpoint mode has.
_OF_ENDPOINT_MODE: Final = "ExternalPathReachable"


def _word(text: str) -> Cell:
    """A word of the API, in its colour."""
    return Cell(text, _STYLES.get(text, ""))


def listed(shoots: Sequence[Shoot], now: float, *, wide: bool = False) -> list[Text]:
    """A table of shoots, in the given order."""
    if not shoots:
        return [Text("no shoots")]
    heads = ["NAMESPACE", "STATE", "REASON", "FOR", "LEASES", "AT 0", "OVERRIDES"]
    rows = [_row(each, now) for each in shoots]
    if wide:
        heads += ["PROBED", "NEXT", "FAILED", "DEPENDENTS", "MESSAGE"]
        rows = [[*row, *_more(each, now)] for row, each in zip(rows, shoots, strict=True)]
    return table(heads, rows)


def _more(shoot: Shoot, now: float) -> list[Cell | str]:
    """The columns of a wide table: how the shoot is probed, its dependents as `NAME REPLICAS (SAVED)`, and why."""
    probe = shoot.probe
    return [
        *(since(probe.last_time, now), clock(probe.next_time), str(probe.consecutive_failures)),
        ", ".join(_sized(each) for each in shoot.resources),
        shoot.message,
    ]


def _sized(resource: Resource) -> str:
    replicas = resource.replicas
    saved = "" if replicas.saved is None else f" ({replicas.saved})"
    return f"{resource.name} {count(replicas.spec)}{saved}"


def counted(shoots: Iterable[Shoot]) -> str:
    """The number of shoots in each state, in the order of first appearance."""
    found = Counter(each.state for each in shoots)
    return ", ".join(f"{number} {said(state)}" for state, number in found.items()) or "no shoots"


def _row(shoot: Shoot, now: float) -> list[Cell | str]:
    decided = (_paused(shoot, now), _held(shoot.hold, now), _ignored(shoot.resources))
    overrides = "; ".join(filter(None, decided))
    return [
        shoot.namespace,
        _word(shoot.state),
        shoot.reason,
        since(shoot.since, now),
        _expired(shoot),
        _at_zero(shoot.resources),
        Cell(overrides, _LOUD if overrides else ""),
    ]


def _expired(shoot: Shoot) -> str:
    """Such as `63/100 expired, 2 unknown`; `-` if the last probe could not read the leases."""
    leases = shoot.leases
    if leases is None or _are_old(leases, shoot.probe):
        return "-"
    unknown = f", {leases.unknown} unknown" if leases.unknown else ""
    return f"{leases.expired}/{leases.candidates} expired{unknown}"


def _are_old(leases: Leases, probe: Probe) -> bool:
    """Whether a later probe could not read the leases."""
    return leases.as_of not in {None, probe.last_time}


def _at_zero(resources: Sequence[Resource]) -> Cell:
    """The number of existing resources at 0, such as `2/3`."""
    there = [each for each in resources if each.replicas.spec is not None]
    zero = sum(each.replicas.spec == 0 for each in there)
    return Cell(f"{zero}/{len(there)}" if there else "-", _LOUD if zero else "")


def _paused(shoot: Shoot, now: float) -> str:
    """The pause that acts, and how many there are; empty if there is none."""
    if shoot.pause is None:
        return ""
    more = f" (1 of {shoot.pauses} pauses)" if shoot.pauses > 1 else ""
    return paused(shoot.pause, now) + more


def paused(pause: Pause, now: float) -> str:
    """A pause with the time left, author and reason, and its name unless it is the API's own."""
    whose = " (all shoots)" if pause.covers == "all" else ""
    author = written_by(pause.author, verified=pause.verified)
    named = f" (Pause {pause.name})" if is_named(pause.name) else ""
    return (
        f"paused {pause.scope}{whose}, {_left(pause.until, now)}, {author}: {pause.reason}{named}"
    )


_OF_THE_API: Final = "api"


def is_named(pause: str) -> bool:
    """Whether a pause has a name by which it is ended: one that was made with kubectl."""
    return pause not in {"", _OF_THE_API}


def pauses(found: Sequence[Pause], now: float) -> list[Text]:
    """A table of pauses, the one that acts first."""
    heads = ("PAUSE", "COVERS", "SCOPE", "LEFT", "AUTHOR", "REASON")
    return table(
        heads,
        [
            (
                *(each.name, "all shoots" if each.covers == "all" else "this shoot", each.scope),
                _left(each.until, now),
                written_by(each.author, verified=each.verified),
                each.reason,
            )
            for each in found
        ],
    )


def _held(hold: Hold | None, now: float) -> str:
    if hold is None:
        return ""
    direction = f" {hold.direction}" if hold.direction else ""
    run = "" if hold.done or not hold.operation else f", scaling run {hold.operation} continues"
    author = written_by(hold.author, verified=hold.verified)
    return f"held{direction}, {_left(hold.until, now)}{run}, {author}: {hold.reason}"


def _ignored(resources: Sequence[Resource]) -> str:
    """Dependents with ignore-scaling; empty if there are none."""
    names = ", ".join(each.name for each in resources if each.ignore_scaling)
    return f"ignored: {names}" if names else ""


def _left(time: str | None, now: float) -> str:
    text = until(time, now)
    return text.partition("(")[2].rstrip(")") or f"until {text}"


def detailed(shoot: Shoot, now: float) -> list[Text]:
    """One shoot in detail."""
    style = _STYLES.get(shoot.state, "")
    head = Text.assemble((said(shoot.namespace), "bold"), "  ", (said(shoot.state), style))
    head.append(f" ({said(shoot.reason)}) since {said(shoot.since)}, {since(shoot.since, now)} ago")
    paths = _in_endpoint_mode(shoot)
    facts = [("last probe", _probe_line(shoot.probe, now, "paths" if paths else "leases"))]
    if not paths:
        facts.append(("leases", _leases(shoot.leases, shoot.probe, now)))
    facts += gates(shoot.gates, now)
    if shoot.pause is not None:
        facts.append(("pause", Cell(_paused(shoot, now), _LOUD)))
    if shoot.hold is not None:
        facts.append(("hold", Cell(_held(shoot.hold, now), _LOUD)))
    return [
        *(head, Text(said(shoot.message)), Text()),
        *fields(facts),
        *(Text(), *_resources(shoot.resources)),
        *_after_a_space(probes(shoot, now)),
        *(Text(), *_conditions(shoot, now)),
    ]


def _in_endpoint_mode(shoot: Shoot) -> bool:
    """Whether the shoot is probed in endpoint mode."""
    return any(each.type == _OF_ENDPOINT_MODE for each in shoot.conditions)


def _after_a_space(lines: list[Text]) -> list[Text]:
    return [Text(), *lines] if lines else []


def _probe_line(probe: Probe, now: float, judged: str) -> Cell:
    if probe.last_time is None:
        return Cell("not yet")
    took = "" if probe.duration_seconds is None else f" in {probe.duration_seconds * 1000:.0f}ms"
    verdict = said(probe.verdict)
    if probe.would_be not in {None, probe.verdict}:
        verdict += f" (the {judged} alone say {said(probe.would_be)})"
    failed = f", {probe.consecutive_failures} failed in a row" if probe.consecutive_failures else ""
    when = f"{since(probe.last_time, now)} ago{took}"
    return Cell(f"{when}: {verdict}; {probe.count} probes{failed}; next {clock(probe.next_time)}")


def _leases(leases: Leases | None, probe: Probe, now: float) -> Cell:
    if leases is None:
        return Cell("not read yet")
    share = f"{leases.fraction:.0%} (limit {leases.threshold:.0%})"
    text = f"{leases.expired} of {leases.candidates} expired: {share}; {leases.unknown} unknown"
    if leases.expiry_after:
        text += f"; they expire after {leases.expiry_after}"
    if leases.excluded:
        left_out = ", ".join(f"{number} {why}" for why, number in sorted(leases.excluded.items()))
        text += f"; not counted: {left_out}"
    if _are_old(leases, probe):
        return Cell(f"{since(leases.as_of, now)} ago, and not read since: {text}", _LOUD)
    return Cell(text)


def _resources(resources: Sequence[Resource]) -> list[Text]:
    heads = ("RESOURCE", "REPLICAS", "READY", "SAVED", "LEVEL UP", "LEVEL DOWN", "NOTES")
    return table(heads, [_resource(each) for each in resources])


def _resource(resource: Resource) -> list[Cell | str]:
    replicas = resource.replicas
    notes = {
        "optional": resource.optional,
        "scaled down by the watchdog": resource.protection_active,
        "ignored": resource.ignore_scaling,
        "does not exist": replicas.spec is None and resource.protection_active is None,
    }
    return [
        f"{resource.kind}/{resource.name}",
        Cell(count(replicas.spec), _LOUD if replicas.spec == 0 else ""),
        count(replicas.ready),
        count(replicas.saved),
        str(resource.scale_up_level),
        str(resource.scale_down_level),
        ", ".join(note for note, applies in notes.items() if applies),
    ]


def _conditions(shoot: Shoot, now: float) -> list[Text]:
    heads = ("CONDITION", "STATUS", "FOR", "REASON", "MESSAGE")
    return table(
        heads,
        [
            (
                each.type,
                each.status,
                since(each.last_transition_time, now),
                each.reason,
                each.message,
            )
            for each in shoot.conditions
        ],
    )


def nodes(found: Sequence[Node]) -> list[Text]:
    """A table of nodes: which are candidates, and their leases."""
    if not found:
        return [Text("no nodes")]
    heads = ("NODE", "POOL", "ZONE", "COUNTS", "LEASE", "AGE", "CLOCK")
    return table(heads, [_node(each) for each in found])


def _node(node: Node) -> list[Cell | str]:
    counts = {True: "yes", False: f"no: {said(node.reason)}", None: f"? {said(node.reason)}"}
    age = "-" if node.age_seconds is None else span(node.age_seconds)
    clock_is = "-" if node.clock_offset_seconds is None else f"{node.clock_offset_seconds:+.1f}s"
    return [
        *(node.name, node.pool or "", node.zone or ""),
        *(counts[node.candidate], _word(node.lease), age, clock_is),
    ]


def history(entries: Sequence[HistoryEntry]) -> list[Text]:
    """The history, newest first."""
    if not entries:
        return [Text("nothing has happened yet")]
    heads = ("TIME", "WHAT", "REASON", "MESSAGE")
    return table(
        heads, [(said(each.time), each.type, each.reason, _message(each)) for each in entries]
    )


def _message(entry: HistoryEntry) -> str:
    """The message of an entry, preceded by the dependent if the message does not name it."""
    named = not entry.resource or entry.resource in entry.message
    return entry.message if named else f"{entry.resource}: {entry.message}"
