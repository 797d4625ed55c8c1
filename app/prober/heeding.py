"""What people decided about one shoot, heeded: a flow of ours that they forbid ends."""

from app.core.model.overrides import Standing
from app.prober.environment import Environment
from app.prober.scaler import Scaler


class Heeding:
    """Follows pauses and holds for one shoot."""

    def __init__(self, environment: Environment, namespace: str, scaler: Scaler) -> None:
        self._env, self._namespace, self._scaler = environment, namespace, scaler
        self.standing = environment.overrides.standing(namespace)
        """As it was last asked for."""

    def now(self) -> Standing:
        """What is in force now."""
        self.standing = self._env.overrides.standing(self._namespace)
        return self.standing

    def changed(self) -> bool:
        """Whether it is another thing than last time; an automatic flow that it forbids is ended."""
        before = self.standing
        if self.now() == before:
            return False
        self._end_what_is_forbidden()
        return True

    def _end_what_is_forbidden(self) -> None:
        flow, standing = self._scaler.flow, self.standing
        if flow is None or flow.order.manual:
            return
        if (hold := standing.hold) is not None:
            self._scaler.end_automatic(f"held by {hold.author}: {hold.reason}")
        elif (pause := standing.pause_against(flow.direction)) is not None:
            self._scaler.end_automatic(f"paused by {pause.author}: {pause.reason}")
