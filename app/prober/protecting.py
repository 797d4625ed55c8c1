"""Notices when protection begins and ends, whoever began or ended it."""

from typing import Final

from app.core.model.operations import Trigger
from app.core.model.probing import Decision
from app.core.model.workloads import Direction, ResourceRef
from app.prober import messages
from app.prober.environment import Environment
from app.prober.rules import protection, thresholds
from app.prober.scaler import Scaler

_OURS_IF_WITHIN: Final = 60.0
"""A protection that begins so soon after one of our scale-downs, in seconds, is one that we began."""


class ProtectionWatch:
    """The protection of one shoot, as its dependents' annotations show it."""

    def __init__(self, environment: Environment, namespace: str, scaler: Scaler) -> None:
        self._env = environment
        self._namespace = namespace
        self._scaler = scaler
        self.begins: tuple[float, ...] = ()
        """When this process began protections of this shoot, within the last hour."""
        self.since: float | None = None
        """When the active protection began; None while none is active."""
        self._read()

    @property
    def active(self) -> bool:
        """Whether a configured dependent carries the meltdown key now."""
        return protection.active(self._scaler.views().values())

    def note(self, decision: Decision | None) -> None:
        """Looks at the dependents again; tells where protection began or ended."""
        was = self.since is not None
        self._read()
        active = self.since is not None
        if active == was or not self._env.ownership.leading:
            return  # a standby keeps count of it, and leaves the telling to the leader
        if active and self._we_scaled_down():
            self.begins = thresholds.began(self.begins, self._env.clock.now())
        why = self._by_hand() or ("found in the seed" if decision is None else decision.message)
        messages.protection_changed(self._env, self._namespace, self._refs()[:1], why, began=active)

    def abandoned(self, why: str) -> None:
        """Tells that nobody looks after an active protection any more; a standby leaves that to the leader."""
        if not self._env.ownership.leading:
            return
        views = self._scaler.views()
        refs = [ref for ref, view in views.items() if view is not None and view.protected]
        if refs:
            messages.protection_abandoned(self._env, self._namespace, refs, why)

    def _read(self) -> None:
        views = self._scaler.views().values()
        if not protection.active(views):
            self.since = None
            return
        self.since = protection.began_at(views) or self.since or self._env.clock.now()

    def _refs(self) -> list[ResourceRef]:
        return [ref for ref, view in self._scaler.views().items() if view is not None]

    def _by_hand(self) -> str | None:
        """Who did it, where a person's flow runs."""
        flow = self._scaler.flow
        if flow is None or not flow.order.manual:
            return None
        return f"scaled {flow.direction} by hand ({flow.order.author}: {flow.order.reason})"

    def _we_scaled_down(self) -> bool:
        """Whether a verdict of ours did: what a person began says nothing about a path that flaps."""
        if (flow := self._scaler.flow) is not None:
            return flow.direction is Direction.DOWN and not flow.order.manual
        last = self._scaler.last
        if last is None or last.direction is not Direction.DOWN or last.trigger is Trigger.MANUAL:
            return False
        return self._env.clock.now() - last.ended < _OURS_IF_WITHIN
