"""Actions that a page offers: as a form, as a `dwd` command line and as curl; only those that the reader may perform.

An action is data. The template renders it as a form, and the page's module sends it to the API as JSON. So the API
stays the only way to write, with one set of checks, and there is no form that another site could submit (threat T17).
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from app.api import schemas
from app.api.auth.authorization import Call
from app.api.context import Context, ProberView
from app.core.model.callers import Caller
from app.core.model.overrides import API_PAUSE, ordered
from app.core.model.scaling_runs import ScalingRunStatus, Trigger
from app.core.model.weeding import ServiceKey, ServiceStatus

MOST_PAUSES: Final = 50
"""Most pauses in force that a page shows, and offers to end; anybody with kubectl may make any number."""


@dataclass(frozen=True, slots=True)
class Field:
    """An input of an action's form."""

    name: str
    """Name of the field in the body."""
    label: str
    flag: str
    """Flag of `dwd` for it."""
    value: str = ""
    choices: tuple[str, ...] = ()
    switch: bool = False
    required: bool = False
    query: bool = False
    """Whether the call has no body, and takes it in its query."""


REASON: Final = Field("reason", "Reason", "--reason", required=True)
REMARK: Final = Field("reason", "Reason", "--reason")
NOTE: Final = Field("reason", "Reason", "--reason", query=True)
DURATION: Final = Field("duration", "For how long", "--for", "1h")
HOLD: Final = Field("hold", "Hold verdicts for", "--hold", "30m")
SCOPE: Final = Field("scope", "Scope", "--scope", "all", choices=("all", "scaleDown"))
FORCE: Final = Field("force", "Force, despite a rule", "--force", switch=True)


@dataclass(frozen=True, slots=True)
class Target:
    """One of several subjects that an action can be for, such as a resource or a service."""

    label: str
    path: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action of a page."""

    id: str
    label: str
    about: str
    """Its effect in a sentence."""
    call: Call
    method: str
    path: str = ""
    words: tuple[str, ...] = ()
    """Words of the `dwd` command line."""
    fields: tuple[Field, ...] = ()
    targets: tuple[Target, ...] = ()
    """Subjects to choose from, whose `path` and `words` then apply; empty: there is one subject only."""
    subject: str = ""
    """The part of a page that has the action; empty: the page itself."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Members of the body besides the fields."""
    plan: tuple[tuple[str, str, str], ...] = ()
    """Object, before and after, of a call that writes nothing to the seed; empty: the module asks with `dryRun`."""
    note: str = ""
    """What else is to be known of that change."""
    typed: str | None = None
    """Text that the reader must type to confirm the action."""
    match: str | None = None
    """Flag of `dwd` for the ETag of the plan, where the command has one."""

    def data(self) -> dict[str, Any]:
        """The action as JSON for the page's module."""
        return {
            "method": self.method,
            "path": self.path,
            "words": self.words,
            "body": dict(self.body),
            "plan": self.plan,
            "note": self.note,
            "targets": [{"path": each.path, "words": each.words} for each in self.targets],
            "flags": {each.name: each.flag for each in self.fields},
            "query": [each.name for each in self.fields if each.query],
            "typed": self.typed,
            "match": self.match,
        }


async def permitted(
    context: Context, caller: Caller, found: Iterable[Action], namespace: str = ""
) -> list[Action]:
    """The actions of `found` that the caller may perform in `namespace`; none if the seed cannot be asked."""
    actions = list(found)
    calls = list({each.call for each in actions})
    answers = await asyncio.gather(
        *(context.authority.may(caller, call, context.place_of(call, namespace)) for call in calls)
    )
    may = {call for call, answer in zip(calls, answers, strict=True) if answer}
    return [each for each in actions if each.call in may]


def on_all(context: Context) -> list[Action]:
    """Actions on all shoots of the seed: pause, and the end of each pause."""
    return list(_of_pauses(context, None))


def _of_pauses(context: Context, namespace: str | None) -> Iterator[Action]:
    """Pause a shoot, or all of them (None); end that pause, and each that somebody made with kubectl."""
    pause, now = context.pause(namespace), context.process.now()
    if namespace is None:
        make, change, end = Call.PAUSE_ALL, Call.CHANGE_PAUSE_ALL, Call.RESUME_ALL
        suffix, whom, path = "-all", "--all", "/api/v1"
        label, again, over = "Pause all shoots", "Change the pause of all", "Resume all shoots"
        about = "Every shoot is still probed, but nothing is scaled or weeded until the pause ends."
        ends, others = "all shoots", "of single shoots"
    else:
        make, change, end = Call.PAUSE, Call.CHANGE_PAUSE, Call.RESUME
        suffix, whom, path = "", namespace, _path(namespace)
        label, again, over = "Pause", "Change the pause", "Resume"
        about = (
            "The shoot is still probed, but nothing is scaled or weeded until the pause ends. "
            "Scope scaleDown prevents only scaling down."
        )
        ends, others = "the shoot", "of all shoots"
    paused = pause is not None and pause.in_force(now)
    yield Action(
        id=f"pause{suffix}",
        label=again if paused else label,
        about=about,
        call=make if pause is None else change,
        method="PUT",
        path=f"{path}/pause",
        words=("dwd", "pause", whom),
        fields=(REASON, DURATION, SCOPE, FORCE),
    )
    resume = ("dwd", "resume", whom)
    if paused:
        yield Action(
            id=f"resume{suffix}",
            label=over,
            about=f"Ends this pause of {ends} now. Those made with kubectl, and {others}, stay.",
            call=end,
            method="DELETE",
            path=f"{path}/pause",
            words=resume,
            fields=(NOTE,),
        )
    in_force = (each.id.name for each in ordered(context.overrides.pauses(namespace), now))
    named = [name for name in in_force if name != API_PAUSE][:MOST_PAUSES]
    if named:
        yield Action(
            id=f"end-pause{suffix}",
            label="End a pause of kubectl…",
            about="Ends this pause now: deletes the Pause that somebody made with kubectl. Others stay.",
            call=end,
            method="DELETE",
            fields=(NOTE,),
            targets=tuple(
                Target(name, f"{path}/pauses/{quote(name, safe='')}", (*resume, "--name", name))
                for name in named
            ),
        )


def on_shoot(context: Context, prober: ProberView, shoot: schemas.Shoot) -> list[Action]:
    """Actions on one shoot."""
    namespace = shoot.namespace
    operations = [each for each in prober.scaling_runs.operations() if each.namespace == namespace]
    return [
        *_of_pauses(context, namespace),
        *_end_hold(context, namespace),
        Action(
            id="probe",
            label="Probe now",
            about="Requests a probe now. Writes nothing to the seed; what the probe finds is acted on as ever.",
            call=Call.PROBE,
            method="POST",
            path=_path(namespace, "probe"),
            words=("dwd", "probe", namespace),
            fields=(NOTE,),
            plan=(("the next probe", shoot.probe.next_time or "none is due", "now"),),
            note="At the earliest 1 s after the last one began, and not while the shoot's API server asks to "
            "wait (429). Requests before it share one probe.",
        ),
        *(_scale(namespace, direction) for direction in ("down", "up")),
        *(_cancel(each) for each in operations if each.running and each.trigger is Trigger.MANUAL),
        *_of_resources(shoot),
        *_weed(context, namespace),
    ]


def _path(namespace: str, *more: str) -> str:
    return "/".join(("/api/v1/shoots", *(quote(each, safe="") for each in (namespace, *more))))


def _end_hold(context: Context, namespace: str) -> Iterator[Action]:
    if context.overrides.effective(namespace).hold is not None:
        yield Action(
            id="end-hold",
            label="End the hold",
            about="The automatic verdicts act again at once, unless an earlier scaling run holds them back, too; a "
            "scaling run of the hold is cancelled.",
            call=Call.CANCEL,
            method="DELETE",
            path=_path(namespace, "hold"),
            words=("dwd", "resume", namespace, "--hold"),
            fields=(NOTE,),
        )


def _scale(namespace: str, direction: str) -> Action:
    down = direction == "down"
    return Action(
        id=f"scale-{direction}",
        label=f"Scale {direction}",
        about="Takes the dependents to 0, level by level."
        if down
        else "Brings the dependents back to their saved replicas, level by level.",
        call=Call.SCALE,
        method="POST",
        path=_path(namespace, "scale"),
        words=("dwd", "scale", direction, namespace),
        fields=(REASON, HOLD, FORCE),
        body={"direction": direction},
        typed=namespace if down else None,
        match="--if-match",
    )


def _cancel(operation: ScalingRunStatus) -> Action:
    return Action(
        id=f"cancel-{operation.id}",
        label=f"Cancel scaling {operation.direction}",
        about="A request already sent is completed, and no other is sent. What was scaled stays as it is. "
        "Its hold ends, so that automatic verdicts act again.",
        call=Call.CANCEL,
        method="DELETE",
        path=f"/api/v1/operations/{quote(operation.id, safe='')}",
        words=("dwd", "operations", operation.id, "--cancel"),
        fields=(NOTE,),
    )


def _of_resources(shoot: schemas.Shoot) -> Iterator[Action]:
    """Set ignore-scaling on resources without it, and remove it from the others."""
    marked = [each for each in shoot.resources if each.ignore_scaling]
    unmarked = [each for each in shoot.resources if each.ignore_scaling is False]
    if unmarked:
        yield Action(
            id="ignore",
            label="Ignore scaling of…",
            about="The resource is not scaled in either direction until ignore-scaling is removed.",
            call=Call.IGNORE,
            method="PUT",
            fields=(REASON, FORCE),
            targets=tuple(_ignored(shoot.namespace, each, "ignore") for each in unmarked),
        )
    if marked:
        yield Action(
            id="unignore",
            label="Stop ignoring…",
            about="The resource is scaled again like all others.",
            call=Call.UNIGNORE,
            method="DELETE",
            fields=(NOTE,),
            targets=tuple(_ignored(shoot.namespace, each, "unignore") for each in marked),
        )


def _ignored(namespace: str, resource: schemas.Resource, command: str) -> Target:
    path = _path(namespace, "resources", resource.kind, resource.name, "ignore-scaling")
    name = f"{resource.kind}/{resource.name}"
    return Target(
        name,
        f"{path}?apiVersion={quote(resource.api_version, safe='')}",
        ("dwd", command, namespace, name),
    )


def _weed(context: Context, namespace: str) -> Iterator[Action]:
    """Weed the services that the weeder follows in this namespace."""
    targets = tuple(_weeded(*each.key) for each in followed(context, namespace))
    if targets:
        yield _weeding("weed", targets)


def followed(context: Context, namespace: str) -> list[ServiceStatus]:
    """The services that the weeder follows in this namespace; none if it does not run in this process."""
    weeders, policy = context.weeders, context.process.configured.weeder
    if weeders is None or policy is None:
        return []
    found = (weeders.status(ServiceKey(namespace, each)) for each in policy.services)
    return [each for each in found if each is not None]


def on_services(services: Iterable[tuple[str, str]]) -> list[Action]:
    """Weed each of these services of the page of the weeder."""
    return [
        _weeding(f"weed-{namespace}-{name}", (_weeded(namespace, name),), f"{namespace}/{name}")
        for namespace, name in services
    ]


def _weeding(name: str, targets: tuple[Target, ...], subject: str = "") -> Action:
    return Action(
        id=name,
        label="Weed now…",
        about="Deletes the pods that depend on the service and wait in CrashLoopBackOff, by the usual rules.",
        call=Call.WEED,
        method="POST",
        fields=(REMARK, FORCE),
        targets=targets,
        subject=subject,
    )


def _weeded(namespace: str, service: str) -> Target:
    path = f"/api/v1/weeders/{quote(namespace, safe='')}/{quote(service, safe='')}"
    return Target(service, path, ("dwd", "weed", namespace, service))
