"""Events about overrides (pauses, holds, ignore-scaling): what differs from what was last published."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.api import presenting
from app.api.schemas import EventName, Hold, OverrideChange, OverrideKind, Pause
from app.api.streaming import changes
from app.api.streaming.changes import StreamEvent
from app.core.model import workloads as ann
from app.core.overrides.cache import OverrideCache
from app.core.reporting.changes import ChangeKind
from app.prober.registry import ShootRegistry


class _Which(NamedTuple):
    """Identifies one override among those of a shoot, or of all shoots."""

    kind: OverrideKind
    resource: str | None = None


class OverrideAction(NamedTuple):
    """An action that a notice reports: the kind of override, and whether the action ended it."""

    override: str
    ended: bool


Authors = Mapping[OverrideAction, str]
"""Authors by action."""
# As it is shown: what else changes in an object, such as its resourceVersion, is no event.
_Decision = Pause | Hold | bool
_Decisions = Mapping[_Which, _Decision]


def action_of(numbers: Mapping[str, object]) -> OverrideAction:
    """The action that a notice with these numbers reports."""
    return OverrideAction(str(numbers.get("override")), numbers.get("action") == "EndOverride")


class OverrideNews:
    """Events about overrides: `override`.

    Args:
        overrides: Pauses and holds.
        shoots: For the annotation ignore-scaling of dependents, which only the prober's leader reports; else None.
    """

    def __init__(self, overrides: OverrideCache, shoots: ShootRegistry | None) -> None:
        self._overrides, self._shoots = overrides, shoots
        self._told: dict[str | None, _Decisions] = {}

    def namespaces(self) -> set[str]:
        """Namespaces with ScaleRequests, or with any override that was published."""
        return {each for each in self._told if each is not None}.union(self._overrides.held())

    def draw(self, namespace: str | None, authors: Authors) -> Iterable[StreamEvent]:
        """Render the overrides of a namespace; returns an event for each that is new, changed or gone.

        Args:
            namespace: The control plane; None: overrides of all shoots.
            authors: Authors that notices named; needed for what has ended. A new pause or hold names its own author.
        """
        before, after = self._told.get(namespace, {}), self._decisions(namespace)
        self._told[namespace] = after
        if not after:
            del self._told[namespace]
        return [
            _told(namespace, which, before.get(which), after.get(which), authors)
            for which in {**before, **after}
            if before.get(which) != after.get(which)
        ]

    def _decisions(self, namespace: str | None) -> _Decisions:
        found: dict[_Which, _Decision] = {}
        if namespace is None:
            pause, hold = self._overrides.global_pause(), None
        else:
            found |= self._ignored(namespace)
            effective = self._overrides.effective(namespace)
            pause, hold = effective.pause, effective.hold
        if pause is not None:
            found[_Which(OverrideKind.PAUSE)] = presenting.pause(pause, namespace)
        if hold is not None:
            found[_Which(OverrideKind.HOLD)] = Hold.of(hold)
        return found

    def _ignored(self, namespace: str) -> Iterable[tuple[_Which, bool]]:
        status = None if self._shoots is None else self._shoots.status(namespace)
        for ref, view in {} if status is None else status.resources.items():
            if view is not None and ann.ignore_scaling(view.annotations) is ann.Ignore.YES:
                yield _Which(OverrideKind.IGNORE_SCALING, str(ref)), True

    def snapshot(self) -> Iterable[StreamEvent]:
        """An event for each override in force."""
        for namespace, decisions in self._told.items():
            for which, decision in decisions.items():
                yield _told(namespace, which, None, decision, {})


def _told(
    namespace: str | None,
    which: _Which,
    before: _Decision | None,
    after: _Decision | None,
    authors: Authors,
) -> StreamEvent:
    change = OverrideChange(
        namespace=namespace,
        kind=which.kind,
        resource=which.resource,
        author=_author(after) or authors.get(OverrideAction(which.kind, after is None)),
        before=before,
        after=after,
    )
    return StreamEvent(ChangeKind.OVERRIDE, namespace, changes.sse_body(EventName.OVERRIDE, change))


def _author(decision: _Decision | None) -> str | None:
    return decision.author if isinstance(decision, Pause | Hold) else None
