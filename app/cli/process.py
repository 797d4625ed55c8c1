"""`dwd status`, `audit` and `config`: the process that answers."""

from collections.abc import Iterator

from rich.text import Text

from app.api import schemas
from app.cli import answers
from app.cli.client import ApiCall
from app.cli.overrides import paused
from app.cli.printing import Answer, as_yaml
from app.cli.session import Session, path
from app.cli.tables import LOUD, Cell, Content, fields, said, since, table
from app.core.config.client_settings import AuditSettings, ConfigSettings, StatusSettings


async def status(session: Session, _: StatusSettings) -> Answer:
    """`dwd status`: the process that answers."""
    data, found = await session.get(schemas.Status, "status")
    return Answer(data, told(found, session.clock.now()))


async def audit(session: Session, settings: AuditSettings, shoot: str | None = None) -> Answer:
    """`dwd audit`: attempts to change something."""
    query = {"namespace": shoot, "caller": settings.caller}
    data, _ = await session.get_all(schemas.AuditEntry, "audit", query=query)
    return Answer(data, attempts(answers.of(schemas.AuditList, data)))


async def config(session: Session, settings: ConfigSettings) -> Answer:
    """`dwd config`: the configuration of the process that answers; or a change of its log level."""
    if settings.log_level is not None:
        call = ApiCall("PUT", path("config", "log-level"), body={"level": str(settings.log_level)})
        data, now = await session.ask(schemas.LogLevelNow, call)
        return Answer(data, [Text(f"logs at level {said(now.level)} until its next start")])
    data = answers.decode(await session.client.ask(ApiCall("GET", "config")))
    if not isinstance(data, dict):
        raise answers.foreign("it is no configuration")
    return Answer(data, [Text(line) for line in as_yaml(data).splitlines()])


def told(found: schemas.Status, now: float) -> list[Text]:
    """Role, leaders, number of shoots by state, and troubles."""
    role = f"{said(found.role)}, in a dry run" if found.dry_run else said(found.role)
    head = Text.assemble((role, "bold"), f"  dependency-watchdog {said(found.version)}")
    head.append(f", since {said(found.started_at)}, {since(found.started_at, now)} ago")
    facts: list[tuple[str, Content]] = []
    for loop, leader in found.leaders.items():
        address = f" at {leader.address}" if leader.address else ""
        known = f"led by {leader.identity}{address}" if leader.identity else "no leader"
        facts.append((loop, known))
    counts = "only the prober's leader knows"
    if found.counts is not None:
        there = [f"{number} {state}" for state, number in found.counts.items() if number]
        counts = ", ".join(there) or "none"
    facts.append(("shoots", counts))
    if found.pause is not None:
        facts.append(("pause", Cell(paused(found.pause, now), LOUD)))
    facts += [(kind, Cell(text, LOUD)) for kind, text in _troubles(found)]
    return [head, *fields(facts)]


def _troubles(found: schemas.Status) -> Iterator[tuple[str, str]]:
    """What deserves a look, and of what kind it is."""
    for feature in found.features_off:
        yield "off", f"{feature.feature}: {feature.reason}"
    for lacking in found.missing_permissions:
        yield "no right", _right(lacking)
    for each in found.config_warnings:
        line = f"line {each.line}" if each.line else None
        yield "warning", ": ".join(filter(None, (each.path, line, each.message)))
    for strange in found.found_unconfigured:
        yield "unknown", f"{strange} carries the meltdown key but is not configured"
    for selector in found.selectors_without_pods:
        yield "no pods", f"{selector} has matched no pod for an hour"


def _right(lacking: schemas.MissingPermission) -> str:
    """A missing permission: `patch deployments.apps kube-controller-manager in all namespaces: needed to protect`."""
    resource = ".".join(filter(None, (lacking.resource, lacking.group)))
    what = " ".join(filter(None, (lacking.verb, resource, lacking.name)))
    where = f"in {lacking.namespace}" if lacking.namespace else "in all namespaces"
    why = f"feature {lacking.feature} is off" if lacking.feature else "needed to protect"
    return f"{what} {where}: {why}"


def attempts(found: schemas.AuditList) -> list[Text]:
    """A table of audit records; the last line says since when the process has kept them."""
    heads = ["TIME", "CALLER", "CLAIMED", "FROM", "ACTION", "SHOOT", "TARGET"]
    heads += ["STATUS", "TIMES", "REASON"]
    lines = table(heads, [_attempt(each) for each in found.items]) if found.items else []
    return [*lines, Text(f"All since {said(found.metadata.since)}; the log has what came before.")]


def _attempt(entry: schemas.AuditEntry) -> tuple[Content, ...]:
    bad = entry.status is None or entry.status >= 400  # noqa: PLR2004 - the first of HTTP's errors
    return (
        *(entry.time, entry.caller, entry.claimed, entry.peer),
        entry.action or f"{entry.method} {entry.path}",
        *(entry.namespace, entry.target),
        Cell("" if entry.status is None else str(entry.status), "red" if bad else "green"),
        *(entry.times, entry.reason),
    )
