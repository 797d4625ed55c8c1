"""`dwd shoots` and `dwd probe`: all shoots in a table, one with all that is known about it, its nodes and history."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.text import Text

from app.api import schemas
from app.cli.client import ApiCall
from app.cli.overrides import held, paused, pauses
from app.cli.printing import Answer
from app.cli.session import Session, path
from app.cli.tables import LOUD, Cell, clock, count, fields, said, since, span, table, word
from app.core.config.client_settings import ProbeSettings, ShootsSettings

_CLOSED: Final = "Closed"
# Columns of all shoots that are left out on a narrow terminal, the first one first: one shoot has them all.
_DETAILS: Final = ("LEASES", "FOR", "AT 0", "REASON")
# A condition that only a shoot in endpoint mode has.
_OF_ENDPOINT_MODE: Final = "ExternalPathReachable"
STYLES: Final = {
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
    "Success": "green",
    "Failure": "red",
}


async def shoots(session: Session, settings: ShootsSettings, name: str | None = None) -> Answer:
    """`dwd shoots`: all shoots, or one."""
    if name is not None:
        return await _shoot(session, settings, name)
    data, found = await session.get_all(schemas.Shoot, "shoots")
    wide, width = session.printer.wide, session.printer.width
    lines = listed(found, session.clock.now(), wide=wide, width=width)
    return Answer(data, lines, [each.namespace for each in found])


async def _shoot(session: Session, settings: ShootsSettings, name: str) -> Answer:
    """One shoot; programs get a single answer: its nodes, its history, or the shoot itself."""
    now, for_people = session.clock.now(), session.printer.for_people
    parts = [
        each for each, asked in ((_nodes, settings.nodes), (_history, settings.history)) if asked
    ]
    if parts and not for_people:
        return await parts[0](session, name)
    data, found = await session.get(schemas.Shoot, "shoots", name)
    lines = detailed(found, now)
    if found.pauses > 1 and for_people:
        _, in_force = await session.get_all(schemas.Pause, "shoots", name, "pauses")
        lines += [Text(), *pauses(in_force, now)]
    for part in parts:
        lines += [Text(), *(await part(session, name)).lines]
    return Answer(data, lines, [found.namespace])


async def _nodes(session: Session, name: str) -> Answer:
    data, found = await session.get_all(schemas.Node, "shoots", name, "nodes")
    return Answer(data, nodes(found))


async def _history(session: Session, name: str) -> Answer:
    data, found = await session.get_all(schemas.HistoryEntry, "shoots", name, "history")
    return Answer(data, history(found))


async def probe(session: Session, settings: ProbeSettings, name: str) -> Answer:
    """`dwd probe`: request a probe."""
    call = ApiCall("POST", path("shoots", name, "probe"), {"reason": settings.reason})
    data, found = await session.ask(schemas.Look, call)
    line = f"{name}: the next probe is at {said(found.at)}; then see dwd shoots {name}"
    return Answer(data, [Text(line)])


# A table of all.


def listed(
    found: Sequence[schemas.Shoot], now: float, *, wide: bool = False, width: int | None = None
) -> list[Text]:
    """A table of shoots, in the given order.

    A wide one says how they are probed, and how large dependents are; in one for a narrow terminal details give way
    to what people decided.
    """
    heads = ["NAMESPACE", "STATE", "REASON", "FOR", "LEASES", "AT 0", "OVERRIDES"]
    heads += ["PROBED", "NEXT", "FAILED", "DEPENDENTS", "MESSAGE"] if wide else []
    rows = [
        (
            *(each.namespace, word(each.state, STYLES), each.reason, since(each.since, now)),
            *(_expired(each), _at_zero(each), _overrides(each, now)),
            *(_last_probe(each, now) if wide else ()),
        )
        for each in found
    ]
    return table(heads, rows, "no shoots", width=width, give_way=() if wide else _DETAILS)


def _last_probe(shoot: schemas.Shoot, now: float) -> tuple[str | int, ...]:
    """What a wide table has besides."""
    probe, dependents = shoot.probe, ", ".join(map(_sized, shoot.resources))
    when = since(probe.last_time, now), clock(probe.next_time)
    return (*when, probe.consecutive_failures, dependents, shoot.message)


def _expired(shoot: schemas.Shoot) -> str | None:
    """How many leases have expired; None where the last probe could not read them."""
    leases = shoot.leases
    if leases is None or _are_old(leases, shoot.probe):
        return None
    unknown = f", {leases.unknown} unknown" if leases.unknown else ""
    return f"{leases.expired}/{leases.candidates} expired{unknown}"


def _at_zero(shoot: schemas.Shoot) -> Cell:
    """How many of the dependents that exist are at 0."""
    there = [it.replicas.spec for it in shoot.resources if it.replicas.spec is not None]
    zero = there.count(0)
    return Cell(f"{zero}/{len(there)}" if there else "", LOUD if zero else "")


def _are_old(leases: schemas.Leases, probe: schemas.ProbeInfo) -> bool:
    """Whether a later probe could not read the leases."""
    return leases.as_of not in {None, probe.last_time}


def _overrides(shoot: schemas.Shoot, now: float) -> Cell:
    """What people decided: the pause that acts, the hold, and dependents with ignore-scaling."""
    ignored = ", ".join(each.name for each in shoot.resources if each.ignore_scaling)
    decided = (
        _paused(shoot, now),
        "" if shoot.hold is None else held(shoot.hold, now),
        f"ignored: {ignored}" if ignored else "",
    )
    text = "; ".join(filter(None, decided))
    return Cell(text, LOUD if text else "")


def _paused(shoot: schemas.Shoot, now: float) -> str:
    """The pause that acts, and how many there are; empty if there is none."""
    if shoot.pause is None:
        return ""
    more = f" (1 of {shoot.pauses} pauses)" if shoot.pauses > 1 else ""
    return paused(shoot.pause, now) + more


def _sized(resource: schemas.Resource) -> str:
    """A dependent as `NAME REPLICAS (SAVED)`."""
    replicas = resource.replicas
    saved = "" if replicas.saved is None else f" ({replicas.saved})"
    return f"{resource.name} {count(replicas.spec)}{saved}"


# One in detail.


def detailed(shoot: schemas.Shoot, now: float) -> list[Text]:
    """One shoot in detail."""
    head = Text.assemble((said(shoot.namespace), "bold"), "  ")
    head.append(said(shoot.state), STYLES.get(shoot.state, ""))
    head.append(f" ({said(shoot.reason)}) since {said(shoot.since)}, {since(shoot.since, now)} ago")
    paths = any(each.type == _OF_ENDPOINT_MODE for each in shoot.conditions)
    facts = [
        ("last probe", _probe_line(shoot.probe, now, "paths" if paths else "leases")),
        ("leases", None if paths else _leases(shoot.leases, shoot.probe, now)),
        *(("gate", _gate(each, now)) for each in shoot.gates),
        ("pause", None if shoot.pause is None else Cell(_paused(shoot, now), LOUD)),
        ("hold", None if shoot.hold is None else Cell(held(shoot.hold, now), LOUD)),
    ]
    lines = [head, Text(said(shoot.message)), Text(), *fields(facts)]
    lines += [Text(), *_resources(shoot.resources)]
    if shoot.endpoint_probes:
        heads = ("PROBE", "TARGET", "TYPE", "RESULT", "FOR", "LAST RUN", "NOTES")
        probes = [_endpoint_probe(each, now) for each in shoot.endpoint_probes]
        lines += [Text(), *table(heads, probes)]
        if (more := shoot.endpoint_probes_total - len(probes)) > 0:
            lines.append(Text(f"and {more} more, which are no worse"))
    return [*lines, Text(), *_conditions(shoot.conditions, now)]


def _gate(gate: schemas.Gate, now: float) -> Cell:
    text = f"{said(gate.message or gate.name)} ({said(gate.state)} for {since(gate.since, now)})"
    return Cell(text, LOUD if gate.state == _CLOSED else "")


def _probe_line(probe: schemas.ProbeInfo, now: float, judged: str) -> str:
    if probe.last_time is None:
        return "not yet"
    took = "" if probe.duration_seconds is None else f" in {probe.duration_seconds * 1000:.0f}ms"
    verdict = said(probe.verdict)
    if probe.would_be not in {None, probe.verdict}:
        verdict += f" (the {judged} alone say {said(probe.would_be)})"
    failed = f", {probe.consecutive_failures} failed in a row" if probe.consecutive_failures else ""
    when = f"{since(probe.last_time, now)} ago{took}"
    return f"{when}: {verdict}; {probe.count} probes{failed}; next {clock(probe.next_time)}"


def _leases(leases: schemas.Leases | None, probe: schemas.ProbeInfo, now: float) -> Cell | str:
    if leases is None:
        return "not read yet"
    share = f"{leases.fraction:.0%} (limit {leases.threshold:.0%})"
    text = f"{leases.expired} of {leases.candidates} expired: {share}; {leases.unknown} unknown"
    if leases.expiry_after:
        text += f"; they expire after {leases.expiry_after}"
    if leases.excluded:
        left_out = ", ".join(f"{number} {why}" for why, number in sorted(leases.excluded.items()))
        text += f"; not counted: {left_out}"
    if _are_old(leases, probe):
        return Cell(f"{since(leases.as_of, now)} ago, and not read since: {text}", LOUD)
    return text


def _resources(resources: Sequence[schemas.Resource]) -> list[Text]:
    heads = ("RESOURCE", "REPLICAS", "READY", "SAVED", "LEVEL UP", "LEVEL DOWN", "NOTES")
    rows = [
        (
            f"{each.kind}/{each.name}",
            Cell(count(each.replicas.spec), LOUD if each.replicas.spec == 0 else ""),
            *(each.replicas.ready, each.replicas.saved),
            *(each.scale_up_level, each.scale_down_level, _notes(each)),
        )
        for each in resources
    ]
    return table(heads, rows)


def _notes(resource: schemas.Resource) -> str:
    missing = resource.replicas.spec is None and resource.protection_active is None
    notes = {
        "optional": resource.optional,
        "scaled down by the watchdog": resource.protection_active,
        "ignored": resource.ignore_scaling,
        "does not exist": missing,
    }
    return _those_that_apply(notes)


def _those_that_apply(notes: Mapping[str, bool | None]) -> str:
    return ", ".join(note for note, applies in notes.items() if applies)


def _endpoint_probe(probe: schemas.EndpointProbe, now: float) -> Sequence[Cell | str]:
    target = probe.target
    outcome = f": {probe.last_result}" if probe.last_result else ""
    notes = {
        "gate closed": probe.gate == _CLOSED,
        "gate": probe.gate is not None and probe.gate != _CLOSED,
        "not counted": not probe.counted,
        f"waits: {probe.waiting}": probe.waiting is not None,
        probe.message: bool(probe.message),
    }
    return [
        *(probe.name, target.host or "/".join(filter(None, (target.pod, target.container)))),
        *(probe.type, word(probe.result, STYLES), since(probe.since, now)),
        "not yet" if probe.last_time is None else f"{since(probe.last_time, now)} ago{outcome}",
        _those_that_apply(notes),
    ]


def endpoint_summary(shoot: schemas.Shoot) -> str:
    """Failing endpoint probes and closed gates in a few words; empty if all is well."""
    failing = sum(each.counted and each.result == "Failure" for each in shoot.endpoint_probes)
    closed = ", ".join(each.name for each in shoot.gates if each.state == _CLOSED)
    words = (
        f"endpoint probes: {failing} failing" if failing else "",
        f"gate closed: {closed}" if closed else "",
    )
    return "; ".join(filter(None, words))


def _conditions(conditions: Sequence[schemas.Condition], now: float) -> list[Text]:
    heads = ("CONDITION", "STATUS", "FOR", "REASON", "MESSAGE")
    rows = [
        (each.type, each.status, since(each.last_transition_time, now), each.reason, each.message)
        for each in conditions
    ]
    return table(heads, rows)


# Its nodes, and its history.


def nodes(found: Sequence[schemas.Node]) -> list[Text]:
    """A table of nodes: which are candidates, and their leases."""
    rows = [
        (
            *(each.name, each.pool, each.zone, _counts(each), word(each.lease, STYLES)),
            None if each.age_seconds is None else span(each.age_seconds),
            None if each.clock_offset_seconds is None else f"{each.clock_offset_seconds:+.1f}s",
        )
        for each in found
    ]
    heads = ("NODE", "POOL", "ZONE", "COUNTS", "LEASE", "AGE", "CLOCK")
    return table(heads, rows, "no nodes")


def _counts(node: schemas.Node) -> str:
    if node.candidate:
        return "yes"
    return f"{'?' if node.candidate is None else 'no:'} {said(node.reason)}"


def history(entries: Sequence[schemas.HistoryEntry]) -> list[Text]:
    """The history, newest first; a message that does not name its dependent comes after the name."""
    rows = []
    for each in entries:
        named = not each.resource or each.resource in each.message
        message = each.message if named else f"{each.resource}: {each.message}"
        rows.append((each.time, each.type, each.reason, message))
    return table(("TIME", "WHAT", "REASON", "MESSAGE"), rows, "nothing has happened yet")
