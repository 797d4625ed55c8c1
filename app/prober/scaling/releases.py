"""Ends protections that have lasted for `maxProtectionDuration`, by a scale-up with a hold of the same length.

A release is a ScaleRequest whose author is the watchdog: its hold keeps the next verdict from scaling down again at
once.
"""

import math
from typing import Final

from app.core import errors
from app.core.model.overrides import RELEASE
from app.core.model.scaling_runs import OURSELVES, ScaleSpec
from app.core.model.workloads import Direction
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.scaling.manual import ScaleRequests

# Seconds between two checks of all shoots.
_TICK: Final = 1.0
# Seconds after which a release that failed is tried, and reported if it fails, again.
_RELEASED_AGAIN: Final = 60.0


class Releases:
    """Releases the protections of all shoots that are probed."""

    def __init__(
        self, environment: ProberEnvironment, registry: ShootRegistry, requests: ScaleRequests
    ) -> None:
        self._env, self._registry, self._requests = environment, registry, requests
        self._most = environment.policy.max_protection or math.inf  # without one, it is not run
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        """Releases protections as they become due, for ever."""
        while True:
            await self._env.clock.sleep(_TICK)
            if self._env.leadership.leading and not self._env.dry_run:
                for each in self._registry.runners():
                    # Checked for each shoot in its turn, as the releases before it may have taken long.
                    await self._release_if_due(each.namespace)
            now = self._env.clock.now()
            self._not_before = {name: at for name, at in self._not_before.items() if at > now}

    def _why_not(self, namespace: str) -> str | None:
        """Why the protection of a shoot is not to be released; None if it is."""
        runner = self._registry.runner(namespace)
        since = None if runner is None else runner.protected_since
        if since is None or self._env.clock.now() - since < self._most:
            return "the protection has ended meanwhile"
        effective = self._env.overrides.effective(namespace)
        if effective.pause_against(Direction.UP) is not None or effective.hold is not None:
            return "somebody has paused or held the shoot meanwhile"
        return None

    def _due(self, namespace: str) -> bool:
        free = self._env.overrides.synced and self._requests.first_open(namespace) is None
        return free and self._why_not(namespace) is None

    async def _release_if_due(self, namespace: str) -> None:
        now = self._env.clock.now()
        if now < self._not_before.get(namespace, 0.0) or not self._due(namespace):
            return
        reason = f"maxProtectionDuration ({self._most:g} s) is over"
        spec = ScaleSpec(Direction.UP, reason, OURSELVES, self._most, force=True)

        def check() -> None:
            if (why := self._why_not(namespace)) is not None:
                raise errors.Refused(why)

        try:
            # A stale watch does not show what somebody has decided since.
            await self._env.overrides.refresh(namespace, urgent=False)
            if not self._due(namespace):
                return
            _ = await self._requests.create(namespace, spec, check, prefix=RELEASE)
        except errors.WatchdogError as error:
            self._not_before[namespace] = now + _RELEASED_AGAIN
            messages.not_released(self._env, namespace, str(error))
        else:
            # However this run ends, a protection that begins again is not released before its time.
            self._not_before[namespace] = now + self._most
            messages.released(self._env, namespace, spec)
