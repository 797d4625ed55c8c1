"""The routes of the pages; each shows the same data, and needs the same rights, as the corresponding call of the API.

Pages are rendered in slices with pauses between them, so that one of a thousand shoots delays no probe. Rows of `/` are
cached until their content changes. The page's module fetches changed rows (`/rows`) and whole pages of the other kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil
from typing import Annotated, Any, Final, NamedTuple
from zlib import crc32

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from app.api import presenting, schemas
from app.api.auth.authorization import Call
from app.api.context import Context, ProberView
from app.api.dependencies import (
    MAX_LIMIT,
    AnyContext,
    LeadingProber,
    allowed,
    caller_of,
    known_shoot,
    leads,
    listed_prober,
)
from app.api.page import actions, site
from app.api.page.plots import BUCKETS, STEP, Plot, drawn
from app.api.routers import status
from app.api.routers.shoots import ShootOrder, sort_key
from app.core.model.policy import Loop
from app.core.model.probing import NoticeKind, ShootState
from app.core.overrides.cache import OverrideCache
from app.prober.rules.state import severity
from app.prober.status import ShootStatus, ShootSummary

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# Placeholder for the rows in their page; no text can imitate it, as texts are escaped.
_HERE: Final = "<!-- rows -->"
_MOST_ROWS: Final = 100
_MOST_NODES: Final = 2_000
_HISTORY: Final = 250
# Kinds of the history that are listed below the plots, as those have bands for them.
_MARKED: Final = {NoticeKind.OVERRIDE, NoticeKind.SCALE}
_MOST_MARKED: Final = 12
_OPERATIONS: Final = 100
_SERVICES: Final = 100
_PODS: Final = 500
# Columns in the plot of a row, one per minute.
_HOUR: Final = 60
_BUCKETS_OF_A_MINUTE: Final = 4

# Plots on the page of a shoot: title, labels of the axis, number of columns, and buckets per column.
_PLOTS: Final = (
    ("The last 15 minutes", ("15 min ago", "now"), 60, 1),
    ("The last hour", ("1 h ago", "30 min ago", "now"), 240, 1),
    ("The last six hours", ("6 h ago", "3 h ago", "now"), 360, 4),
)

_WITHOUT_SCRIPT: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

Search = Annotated[str, Query(max_length=253)]
Namespaces = Annotated[list[str], Query(max_length=_MOST_ROWS)]


class _Row(NamedTuple):
    """A rendered row with what it was rendered from."""

    shows: tuple[object, ...]
    """All that the row shows besides its plot."""
    changed: float
    """When `shows` last changed."""
    minute: int
    """The minute that its plot was drawn in."""
    html: str


class Rows:
    """Cache of the rows of `/`, shared by all readers; some 2 kB per shoot.

    A probe mostly finds what the one before it found. So a row is rendered when what it shows has changed, and once a
    minute, as its plot moves on; each shoot has a second of the minute of its own, so that a thousand plots are not
    all drawn at once.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Row] = {}
        self._template = site.TEMPLATES.get_template("row.html")

    def of(self, prober: ProberView, status: ShootStatus, now: float) -> _Row:
        """The row of a shoot."""
        namespace = status.namespace
        effective, endpoints = prober.overrides.effective(namespace), prober.endpoints_of(namespace)
        stale = status.read_at if status.read_at != status.last_probe else None
        counts = None if status.tally is None else status.tally.candidates
        shows = (
            (status.state, status.since, status.message, counts, stale),
            status.resources,
            effective,
            endpoints.gates,
        )
        known = self._known.get(namespace)
        minute = int((now + crc32(namespace.encode()) % 60) // 60)
        same = known is not None and known.shows == shows
        if known is not None and same and known.minute == minute:
            return known
        html = self._template.render(
            shoot=prober.shoot(status),
            rank=severity(status.state),
            plot=_plot(prober, namespace, now, _HOUR, _BUCKETS_OF_A_MINUTE),
            seen=prober.plots.of(namespace).probed_before(status.since),
            leases=not prober.policy.endpoint_mode,
            now=now,
        )
        changed = known.changed if known is not None and same else now
        found = self._known[namespace] = _Row(shows, changed, minute, html)
        return found

    def keep(self, shoots: Sequence[ShootSummary]) -> None:
        """Drop the rows of shoots that are gone."""
        if len(self._known) > len(shoots):
            there = {each.namespace for each in shoots}
            self._known = {name: row for name, row in self._known.items() if name in there}


def _plot(prober: ProberView, namespace: str, now: float, count: int, each: int) -> Plot:
    """The last `count` columns, of `each` buckets."""
    policy = prober.policy
    between = policy.probe_interval * (1 + policy.jitter) + policy.probe_timeout
    return drawn(
        prober.plots.of(namespace).columns(now, count, each),
        policy.limit,
        carry=ceil(between / (STEP * each)),
        leases=not policy.endpoint_mode,
    )


async def _common(request: Request, context: Context, tab: str) -> dict[str, Any]:
    """Values for the frame of every page: the process, its leaders and its troubles."""
    streams = request.app.state.streams
    return {
        # Read first: changes during the rendering then come as events after this one, and none is missed.
        "newest": None if streams is None else streams.newest(),
        "status": await status.read_status(context),
        "tab": tab,
        "now": context.process.now(),
        "caller": caller_of(request).name,
        "origin": str(request.base_url).rstrip("/"),
        "bearer": request.headers.get("authorization") is not None,
        "leading": leads(context, Loop.PROBER),
        "weeding": leads(context, Loop.WEEDER),
        "loops": sorted(str(each) for each in context.process.leaders),
        "peer": context.process.peer_url,
    }


@router.get("/", dependencies=[allowed(Call.LIST)])
async def list_shoots(
    request: Request,
    context: AnyContext,
    q: Search = "",
    state: Annotated[list[ShootState], Query()] = [],  # noqa: B006 - FastAPI copies it
    sort: ShootOrder = ShootOrder.SEVERITY,
) -> Response:
    """Page of all shoots, worst first; on a standby a page with the leader and the overrides."""
    common = await _common(request, context, "shoots")
    common["actions"] = await actions.permitted(
        context, caller_of(request), actions.on_all(context)
    )
    values = {**common, "q": q, "chosen": [str(each) for each in state], "sort": str(sort)}
    if not common["leading"]:
        return site.page("standby.html", **values, decided=_decided(context))
    prober = await listed_prober(context)
    values["leases"] = not prober.policy.endpoint_mode
    before, after = site.TEMPLATES.get_template("shoots.html").render(values).split(_HERE)
    found = sorted(prober.shoots.summaries(), key=lambda each: sort_key(each, sort))
    rows: Rows = request.app.state.rows
    rows.keep(found)

    def parts() -> Iterator[str]:
        yield before
        for summary in found:
            known = prober.shoots.status(summary.namespace)
            if known is not None and _matches(known, prober.overrides, q, state):
                yield rows.of(prober, known, common["now"]).html
        yield after

    return site.paced(parts(), context.process)


def _decided(
    context: Context,
) -> list[tuple[str, schemas.Pause | None, schemas.Hold | None]]:
    """Shoots with a pause or a hold, as far as a standby knows them."""
    found = []
    for summary in () if context.prober is None else context.prober.shoots.summaries():
        effective = context.overrides.effective(summary.namespace)
        own = effective.pause
        pause = None if own is None else presenting.pause(own, summary.namespace)
        hold = None if effective.hold is None else schemas.Hold.of(effective.hold)
        if pause is not None or hold is not None:
            found.append((summary.namespace, pause, hold))
    return sorted(found)


def _matches(
    shoot: ShootStatus, overrides: OverrideCache, q: str, states: Sequence[ShootState]
) -> bool:
    """Whether a shoot matches the filter; `static/page.js` searches the same texts of a row, and must keep to it."""
    if states and shoot.state not in states:
        return False
    if not q:
        return True
    effective = overrides.effective(shoot.namespace)
    texts = [shoot.namespace, shoot.message]
    for word, found in (("paused by", effective.covering), ("held by", effective.hold)):
        texts += [] if found is None else [f"{word} {found.author}", found.reason]
    if effective.covering is not None:
        texts.append(f"Pause {effective.covering.id.name}")
    wanted = q.casefold()
    return any(wanted in each.casefold() for each in texts)


@router.get("/rows", dependencies=[allowed(Call.LIST)])
async def read_rows(
    request: Request,
    context: AnyContext,
    prober: LeadingProber,
    namespace: Namespaces = [],  # noqa: B006 - FastAPI copies it
    since: float | None = None,
) -> Response:
    """Fragment for the page's module: the part above the table, and the named rows; a missing row means a gone shoot.

    With `since`, the rows that have changed after this instant instead: for pages that may have no stream of events.
    """
    common = await _common(request, context, "shoots")
    summaries = prober.shoots.summaries()
    names = namespace if since is None else [each.namespace for each in summaries]
    rows: Rows = request.app.state.rows
    values = {**common, "total": len(summaries)}
    before, after = site.TEMPLATES.get_template("rows.html").render(values).split(_HERE)

    def parts() -> Iterator[str]:
        yield before
        for each in names:
            known = prober.shoots.status(each)
            if known is None:
                continue
            row = rows.of(prober, known, common["now"])
            yield row.html if since is None or row.changed > since else ""
        yield after

    return site.paced(parts(), context.process)


@router.get("/shoots/{namespace}", dependencies=[allowed(Call.READ_SHOOT)])
async def read_shoot(
    request: Request,
    context: AnyContext,
    prober: LeadingProber,
    namespace: str,
    kind: NoticeKind | None = None,
) -> Response:
    """Page of one shoot: why it is in its state."""
    common = await _common(request, context, "shoots")
    found, now = known_shoot(prober, namespace), common["now"]
    effective = prober.overrides.effective(namespace)
    shoot = prober.shoot(found)
    history = prober.history.about(namespace)
    entries = [each for each in history if kind in {None, each.kind}]
    operations = [each for each in prober.scaling_runs.operations() if each.namespace == namespace]
    return site.rendered(
        "shoot.html",
        context.process,
        **common,
        shoot=shoot,
        pauses=[
            presenting.pause(each, namespace) for each in effective.pauses[: actions.MOST_PAUSES]
        ],
        groups=_groups(found),
        nodes_total=len(presenting.rows(found)),
        seen=prober.plots.of(namespace).probed_before(found.since),
        plots=[
            (title, ends, _plot(prober, namespace, now, count, each))
            for title, ends, count, each in _PLOTS
        ],
        marked=[
            presenting.history_entry(each)
            for each in history
            if each.kind in _MARKED and now - each.at < BUCKETS * STEP
        ][:_MOST_MARKED],
        kind=kind,
        kinds=[str(each) for each in NoticeKind],
        history=[presenting.history_entry(each) for each in entries[:_HISTORY]],
        history_total=len(entries),
        operations=[
            schemas.Operation.of(each)
            for each in sorted(operations, key=lambda each: -each.created)
        ],
        actions=await actions.permitted(
            context, caller_of(request), actions.on_shoot(context, prober, shoot), namespace
        ),
        leases=not prober.policy.endpoint_mode,
    )


class Group(NamedTuple):
    """The nodes of one pool in one zone."""

    zone: str
    pool: str
    nodes: list[schemas.Node]
    expired: int


def _groups(found: ShootStatus) -> list[Group]:
    """The nodes grouped by zone and pool, in the order of these names."""

    def place(node: schemas.Node) -> tuple[str, str]:
        return node.zone or "", node.pool or ""

    nodes = sorted(map(schemas.Node.of, presenting.rows(found)[:_MOST_NODES]), key=place)
    groups = []
    for (zone, pool), members in groupby(nodes, key=place):
        there = sorted(members, key=lambda each: each.name)
        expired = sum(bool(each.candidate) and each.lease == "Expired" for each in there)
        groups.append(Group(zone, pool, there, expired))
    return groups


@router.get("/operations", dependencies=[allowed(Call.LIST)])
async def list_operations(
    request: Request, context: AnyContext, prober: LeadingProber, namespace: Search = ""
) -> Response:
    """Page of the scaling runs, running and past, step by step."""
    found = [each for each in prober.scaling_runs.operations() if namespace in {"", each.namespace}]
    found.sort(key=lambda each: (not each.running, -each.created))
    return site.rendered(
        "operations.html",
        context.process,
        **await _common(request, context, "operations"),
        namespace=namespace,
        total=len(found),
        operations=[schemas.Operation.of(each) for each in found[:_OPERATIONS]],
    )


@router.get("/weeders", dependencies=[allowed(Call.LIST)])
async def list_weeders(request: Request, context: AnyContext, namespace: Search = "") -> Response:
    """Page of recoveries: the pods that each deleted or spared, and why; and weed now, of each service."""
    common = await _common(request, context, "weeders")
    weeders = context.weeders if common["weeding"] else None
    known = [] if weeders is None else list(weeders.statuses())
    chosen = [each for each in known if namespace in {"", each.key.namespace}]
    chosen.sort(key=lambda each: -max((one.began for one in each.recoveries), default=0.0))
    shown: list[schemas.Weeder] = []
    pods = 0
    for each in chosen[:_SERVICES]:
        pods += presenting.pods(each)
        if pods > _PODS and shown:
            break
        shown.append(schemas.Weeder.of(each))
    if weeders is not None and namespace:
        # Those that have had no recovery can be weeded all the same.
        quiet = (each for each in actions.followed(context, namespace) if not each.recoveries)
        shown += map(schemas.Weeder.of, quiet)
    weed = actions.on_services((each.namespace, each.service) for each in shown)
    return site.rendered(
        "weeders.html",
        context.process,
        **common,
        namespace=namespace,
        total=len(chosen),
        services=shown,
        actions=await actions.permitted(context, caller_of(request), weed, namespace),
    )


@router.get("/audit", dependencies=[allowed(Call.READ_AUDIT)])
async def list_audit(
    request: Request, context: AnyContext, namespace: Search = "", caller_name: Search = ""
) -> Response:
    """Page of the audit records."""
    wanted = status.AuditQuery(
        namespace=namespace or None, caller=caller_name or None, limit=MAX_LIMIT
    )
    found = await status.list_audit(context, wanted)
    return site.rendered(
        "audit.html",
        context.process,
        **await _common(request, context, "audit"),
        namespace=namespace,
        caller_name=caller_name,
        total=found.metadata.total,
        since=found.metadata.since,
        entries=found.items,
    )


@router.get("/config", dependencies=[allowed(Call.READ_CONFIG)])
async def read_config(request: Request, context: AnyContext) -> Response:
    """Page of the effective configuration."""
    found = await status.read_config(context)
    shown = found.public()
    # The values of each file by section: scalars under "", each list or mapping under its own name.
    files: dict[str, dict[str, list[tuple[str, Any]]]] = {}
    for file in ("prober", "weeder"):
        for name, value in (shown[file] or {}).items():
            section = name if isinstance(value, (list, dict)) else ""
            files.setdefault(file, {"": []}).setdefault(section, []).append((name, value))
    return site.rendered(
        "config.html",
        context.process,
        **await _common(request, context, "config"),
        flags=sorted(shown["flags"].items()),
        level=shown["logLevel"],
        files=files,
    )


@router.get("/docs", dependencies=[allowed(Call.LIST)])
async def read_reference(request: Request, context: AnyContext) -> Response:
    """What each call takes, and what comes back."""
    found = site.paced(reference(request.app.openapi()), context.process)
    found.headers["Content-Security-Policy"] = _WITHOUT_SCRIPT
    return found


def reference(document: Mapping[str, Any]) -> Iterator[str]:
    """The OpenAPI document as a page without script, in parts.

    The framework's own pages load their scripts from a CDN, which the Content-Security-Policy forbids (threat T17).
    """
    calls = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return site.TEMPLATES.get_template("reference.html").generate(document=document, calls=calls)
