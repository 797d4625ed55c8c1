"""The word that sums a shoot up, its conditions, and since when each is so."""

from dataclasses import replace

from app.core.model.probing import ShootState
from app.prober import status
from app.prober.rules import share, state
from app.prober.status import Condition, Outline, ShootStatus


class Portrait:
    """Draws state and conditions from what is known, and keeps the times of their changes.

    What was drawn of the same facts is not drawn again: between two looks many may ask.
    """

    def __init__(self, now: float) -> None:
        self._state = ShootState.PENDING
        self._since = now
        self._conditions: tuple[Condition, ...] = ()
        self._known: ShootStatus | None = None
        """What state and conditions were drawn from; None where they must be drawn anew."""
        self._drawn: ShootStatus | None = None
        """The same with all that was drawn from it, where somebody asked."""

    def outline(self, namespace: str, facts: state.Facts, now: float) -> Outline:
        """The state as of `now`, and since when."""
        word = state.summary(facts).state
        if word is not self._state:
            self._state, self._since, self._known = word, now, None
        return Outline(namespace, word, self._since)

    def note(self, known: ShootStatus, now: float) -> ShootState:
        """Notes what has changed at `now`; returns the state."""
        if known != self._known:
            _ = self.outline(known.namespace, known.facts, now)
            self._conditions = status.conditions(known, self._conditions, now)
            self._known, self._drawn = known, None
        return self._state

    def update(self, known: ShootStatus, now: float) -> ShootStatus:
        """`known` with state, reason, message and conditions as of `now`."""
        word = self.note(known, now)
        if self._drawn is None:
            reason = state.summary(known.facts).reason
            self._drawn = replace(
                known,
                state=word,
                reason=reason,
                message=_message(known, reason),
                since=self._since,
                conditions=self._conditions,
            )
        return self._drawn


def _message(known: ShootStatus, reason: str) -> str:
    decision = known.decision
    if decision is None:
        return known.message
    said = decision.message
    if reason == state.SCALING_FAILED:
        said += f"; scaling failed: {known.scaling_failure}"
    elif reason != decision.reason and known.kept_back is not None:
        said += f"; {known.kept_back}"
    if known.less_often:
        said += f"; {share.PROBED_LESS_OFTEN}"
    if known.protected_since is None or not known.at_zero:
        return said
    *others, last = known.at_zero
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"{said}; {names} at 0"
