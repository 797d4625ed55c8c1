"""Ends protections that have lasted for `maxProtectionDuration`, by a scale-up with a hold of the same length.

A release is a ScaleRequest whose author is the watchdog: its hold keeps the next verdict from scaling down again at
once.
"""

from typing import Final

import structlog

from app.core import errors
from app.core.model.overrides import RELEASE
from app.core.model.scaling_runs import OURSELVES, ScaleSpec
from app.core.model.workloads import Direction
from app.prober import messages
from app.prober.environment import ProberEnvironment
from app.prober.registry import ShootRegistry
from app.prober.scaling.manual import ScaleRequests

log = structlog.get_logger(__name__)

# Seconds between two checks of all shoots.
_TICK: Final = 1.0
# Seconds after which a release that failed is tried, and reported if it fails, again.
_AGAIN: Final = 60.0


class Releases:
    """Releases the protections of all shoots that are probed."""

    def __init__(
        self, environment: ProberEnvironment, registry: ShootRegistry, requests: ScaleRequests
    ) -> None:
        self._env, self._registry, self._requests = environment, registry, requests
        self._not_before: dict[str, float] = {}

    async def run(self) -> None:
        """Releases protections as they become due, for ever; returns at once if no limit is configured."""
        most = self._env.policy.max_protection
        if most is None:
            return
        while True:
            await self._env.clock.sleep(_TICK)
            if self._env.leadership.leading and not self._env.dry_run:
                for each in self._registry.runners():
                    # Checked for each shoot in its turn, as the releases before it may have taken long.
                    if self._due(each.namespace, most):
                        await self._release(each.namespace, most)
            now = self._env.clock.now()
            self._not_before = {name: at for name, at in self._not_before.items() if at > now}

    def _due(self, namespace: str, most: float) -> bool:
        if self._env.clock.now() < self._not_before.get(namespace, 0.0):
            return False
        return self._lasted(namespace, most) and self._may(namespace)

    def _lasted(self, namespace: str, most: float) -> bool:
        runner = self._registry.runner(namespace)
        since = None if runner is None else runner.protected_since
        return since is not None and self._env.clock.now() - since >= most

    def _may(self, namespace: str) -> bool:
        """Whether a release may start: no hold, no pause of scope `all`, no manual run."""
        if not self._env.overrides.synced or self._paused_or_held(namespace):
            return False
        return self._requests.open(namespace) is None

    def _paused_or_held(self, namespace: str) -> bool:
        """Whether a pause or hold forbids a scale-up."""
        effective = self._env.overrides.effective(namespace)
        return effective.pause_against(Direction.UP) is not None or effective.hold is not None

    async def _release(self, namespace: str, most: float) -> None:
        now = self._env.clock.now()
        reason = f"maxProtectionDuration ({most:g} s) is over"
        spec = ScaleSpec(Direction.UP, reason, OURSELVES, most, force=True)

        def check() -> None:
            if not self._lasted(namespace, most):
                raise errors.Refused("the protection has ended meanwhile")
            if self._paused_or_held(namespace):
                raise errors.Refused("somebody has paused or held the shoot meanwhile")

        try:
            _ = await self._requests.begin(namespace, spec, check, prefix=RELEASE)
        except errors.WatchdogError as error:
            self._not_before[namespace] = now + _AGAIN
            messages.not_released(self._env, namespace, str(error))
        else:
            # However this run ends, a protection that begins again is not released before its time.
            self._not_before[namespace] = now + most
            messages.released(self._env, namespace, spec)
