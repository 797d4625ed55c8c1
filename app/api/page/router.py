"""The routes of the pages; each shows the same data, and needs the same rights, as the corresponding call of the API.

`/` renders its rows in slices with pauses between them, so that a page of a thousand shoots delays no probe. Rows are
cached until their content changes. The page's module fetches changed rows (`/rows`) and whole pages of the other kinds.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from app.api import operations_view, presenting, schemas
from app.api.auth.authorization import Call
from app.api.dependencies import (
    AnyContext,
    LeadingProber,
    allowed,
    caller_of,
    known_shoot,
    leads,
    listed_prober,
)
from app.api.page import actions, site
from app.api.page.plots import drawn
from app.api.presenting import Endpoints
from app.api.routers import status
from app.api.routers.shoots import ShootOrder
from app.api.views import Context, ProberView
from app.core.model.instants import rfc3339
from app.core.model.overrides import EffectiveOverrides
from app.core.model.policy import Loop
from app.core.model.probing import ShootState
from app.core.reporting.notices import NoticeKind
from app.prober.rules.state import severity
from app.prober.status import ShootStatus, ShootSummary

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# Placeholder for the rows in their page; no text can imitate it, as texts are escaped.
_HERE: Final = "<!-- rows -->"
# Rows that are rendered before a pause: some milliseconds of work.
_SLICE: Final = 20
_MOST_ROWS: Final = 100
_MOST_NODES: Final = 2_000
_HISTORY: Final = 250
_OPERATIONS: Final = 100
_SERVICES: Final = 100
_PODS: Final = 500
_ENTRIES: Final = 500
# Columns in the plot of a row, one per minute.
_HOUR: Final = 60
_BUCKETS_OF_A_MINUTE: Final = 4

# Plots on the page of a shoot: title, labels of the axis, number of columns, and buckets per column.
_PLOTS: Final = (
    ("The last 15 minutes", ("15 min ago", "now"), 60, 1),
    ("The last hour", ("1 h ago", "30 min ago", "now"), 240, 1),
    ("The last six hours", ("6 h ago", "3 h ago", "now"), 360, 4),
)

Search = Annotated[str, Query(max_length=253)]
Namespaces = Annotated[list[str], Query(max_length=_MOST_ROWS)]


class _Row(NamedTuple):
    """A rendered row with the inputs that it was rendered from."""

    status: ShootStatus
    effective: EffectiveOverrides
    endpoints: Endpoints
    minute: int
    html: str


class Rows:
    """Cache of the rows of `/`, shared by all readers; some 2 kB per shoot."""

    def __init__(self) -> None:
        self._known: dict[str, _Row] = {}
        self._template = site.TEMPLATES.get_template("row.html")

    def of(self, prober: ProberView, status: ShootStatus, now: float) -> str:
        """The row of a shoot; rendered if its inputs changed, and once a minute, as its plot moves on."""
        namespace = status.namespace
        effective, endpoints = prober.overrides.effective(namespace), prober.endpoints_of(namespace)
        known, minute = self._known.get(namespace), int(now // 60)
        made_of = (status, effective, endpoints, minute)
        if known is not None and known[:-1] == made_of:
            return known.html
        shoot = presenting.shoot(status, prober.policy, effective, endpoints)
        columns = prober.plots.of(namespace).columns(now, _HOUR, _BUCKETS_OF_A_MINUTE)
        html = self._template.render(
            shoot=shoot,
            rank=severity(status.state),
            plot=drawn(columns, prober.policy.limit),
            limit=prober.policy.limit,
            now=now,
        )
        self._known[namespace] = _Row(*made_of, html)
        return html

    def keep(self, shoots: Sequence[ShootSummary]) -> None:
        """Drop the rows of shoots that are gone."""
        if len(self._known) > len(shoots):
            there = {each.namespace for each in shoots}
            self._known = {name: row for name, row in self._known.items() if name in there}


def _rows(request: Request) -> Rows:
    """The cache of this application."""
    state = request.app.state
    if not hasattr(state, "rows"):
        state.rows = Rows()
    found: Rows = state.rows
    return found


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
    before, after = site.TEMPLATES.get_template("shoots.html").render(values).split(_HERE)
    found = sorted(prober.shoots.summaries(), key=lambda each: _order(each, sort))

    async def parts() -> AsyncIterator[str]:
        yield before
        rows, now = _rows(request), context.process.now
        rows.keep(found)
        made: list[str] = []
        began = now()
        for summary in found:
            known = prober.shoots.status(summary.namespace)
            if known is not None and _matches(known, q, state):
                made.append(rows.of(prober, known, common["now"]))
            if len(made) >= _SLICE:
                yield "".join(made)
                made.clear()
                # As long a pause as the slice took, for everything else in the event loop.
                await context.process.sleep(max(0.001, min(now() - began, 0.05)))
                began = now()
        yield "".join(made) + after

    return StreamingResponse(parts(), media_type="text/html", headers=site.HEADERS)


def _decided(
    context: Context,
) -> list[tuple[str, schemas.Pause | None, schemas.Hold | None]]:
    """Shoots with a pause or a hold, as far as a standby knows them."""
    found = []
    for summary in () if context.prober is None else context.prober.shoots.summaries():
        effective = context.overrides.effective(summary.namespace)
        pause = presenting.pause(effective.pause, schemas.Covers.SHOOT)
        hold = None if effective.hold is None else presenting.hold(effective.hold)
        if pause is not None or hold is not None:
            found.append((summary.namespace, pause, hold))
    return sorted(found)


def _order(shoot: ShootSummary, sort: ShootOrder) -> tuple[float, str]:
    match sort:
        case ShootOrder.SEVERITY:
            return severity(shoot.state), shoot.namespace
        case ShootOrder.SINCE:
            return -shoot.since, shoot.namespace
        case ShootOrder.NAME:
            return 0.0, shoot.namespace


def _matches(shoot: ShootStatus, q: str, states: Sequence[ShootState]) -> bool:
    """Whether a shoot matches the filter; `static/page.js` has the same rule, and must keep it."""
    if states and shoot.state not in states:
        return False
    wanted = q.casefold()
    return wanted in shoot.namespace.casefold() or wanted in shoot.message.casefold()


@router.get("/rows", dependencies=[allowed(Call.LIST)])
async def read_rows(
    request: Request,
    context: AnyContext,
    prober: LeadingProber,
    namespace: Namespaces = [],  # noqa: B006 - FastAPI copies it
) -> HTMLResponse:
    """Fragment for the page's module: the part above the table and the named rows; a missing row means a gone shoot."""
    common = await _common(request, context, "shoots")
    known = [prober.shoots.status(each) for each in namespace]
    rows, now = _rows(request), common["now"]
    made = [rows.of(prober, each, now) for each in known if each is not None]
    return site.page("rows.html", **common, rows="".join(made))


@router.get("/shoots/{namespace}", dependencies=[allowed(Call.READ_SHOOT)])
async def read_shoot(
    request: Request,
    context: AnyContext,
    prober: LeadingProber,
    namespace: str,
    kind: NoticeKind | None = None,
) -> HTMLResponse:
    """Page of one shoot: why it is in its state."""
    common = await _common(request, context, "shoots")
    found, now = known_shoot(prober, namespace), common["now"]
    shoot = presenting.shoot(
        found,
        prober.policy,
        prober.overrides.effective(namespace),
        prober.endpoints_of(namespace),
    )
    entries = [each for each in prober.shoots.history(namespace) if kind in {None, each.kind}]
    operations = [each for each in prober.scaling_runs.operations() if each.namespace == namespace]
    limit, series = prober.policy.limit, prober.plots.of(namespace)
    plots = [
        (title, ends, drawn(series.columns(now, count, each), limit))
        for title, ends, count, each in _PLOTS
    ]
    return site.page(
        "shoot.html",
        **common,
        shoot=shoot,
        limit=limit,
        groups=_groups(found),
        nodes_total=len(presenting.rows(found)),
        plots=plots,
        kind=kind,
        kinds=[str(each) for each in NoticeKind],
        history=[presenting.history_entry(each) for each in entries[:_HISTORY]],
        history_total=len(entries),
        operations=[
            operations_view.operation(each)
            for each in sorted(operations, key=lambda each: -each.created)
        ],
        actions=await actions.permitted(
            context, caller_of(request), actions.on_shoot(context, prober, shoot), namespace
        ),
        endpoint_mode=prober.policy.endpoint_mode is not None,
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

    nodes = sorted((each.shown() for each in presenting.rows(found)[:_MOST_NODES]), key=place)
    groups = []
    for (zone, pool), members in groupby(nodes, key=place):
        there = sorted(members, key=lambda each: each.name)
        groups.append(Group(zone, pool, there, sum(_expired(each) for each in there)))
    return groups


def _expired(node: schemas.Node) -> bool:
    return bool(node.candidate) and node.lease == "Expired"


@router.get("/operations", dependencies=[allowed(Call.LIST)])
async def list_operations(
    request: Request, context: AnyContext, prober: LeadingProber, namespace: Search = ""
) -> HTMLResponse:
    """Page of the scaling runs, running and past, step by step."""
    found = [each for each in prober.scaling_runs.operations() if namespace in {"", each.namespace}]
    found.sort(key=lambda each: (not each.running, -each.created))
    return site.page(
        "operations.html",
        **await _common(request, context, "operations"),
        namespace=namespace,
        total=len(found),
        operations=[operations_view.operation(each) for each in found[:_OPERATIONS]],
    )


@router.get("/weeders", dependencies=[allowed(Call.LIST)])
async def list_weeders(
    request: Request, context: AnyContext, namespace: Search = ""
) -> HTMLResponse:
    """Page of recoveries: the pods that each deleted or spared, and why."""
    common = await _common(request, context, "weeders")
    weeders = context.weeders if common["weeding"] else None
    known = [] if weeders is None else list(weeders.statuses())
    chosen = [each for each in known if namespace in {"", each.key.namespace}]
    chosen.sort(key=lambda each: -max((one.began for one in each.recoveries), default=0.0))
    shown: list[schemas.Weeder] = []
    pods = 0
    for each in chosen[:_SERVICES]:
        pods += operations_view.pods(each)
        if pods > _PODS and shown:
            break
        shown.append(operations_view.weeder(each))
    return site.page(
        "weeders.html", **common, namespace=namespace, total=len(chosen), services=shown
    )


@router.get("/audit", dependencies=[allowed(Call.READ_AUDIT)])
async def list_audit(
    request: Request, context: AnyContext, namespace: Search = "", caller_name: Search = ""
) -> HTMLResponse:
    """Page of the audit records."""
    found = [
        each
        for each in context.audit.entries()
        if namespace in {"", each.attempt.namespace} and caller_name in {"", each.attempt.caller}
    ]
    return site.page(
        "audit.html",
        **await _common(request, context, "audit"),
        namespace=namespace,
        caller_name=caller_name,
        total=len(found),
        since=rfc3339(context.audit.since),
        entries=[presenting.audit_entry(each) for each in found[:_ENTRIES]],
    )


@router.get("/config", dependencies=[allowed(Call.READ_CONFIG)])
async def read_config(request: Request, context: AnyContext) -> HTMLResponse:
    """Page of the effective configuration."""
    found = await status.read_config(context)
    shown = found.model_dump(mode="json", by_alias=True)
    files = {name: shown[name] for name in ("prober", "weeder") if shown[name] is not None}
    return site.page(
        "config.html",
        **await _common(request, context, "config"),
        flags=sorted(shown["flags"].items()),
        level=shown["logLevel"],
        files={name: _plain(values) for name, values in files.items()},
    )


def _plain(values: dict[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """The values of a file by section: scalars under "", each list or mapping under its own name."""
    parts: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for name, value in values.items():
        parts[name if isinstance(value, (list, dict)) else ""].append((name, value))
    return dict(parts)
