"""The word that sums a shoot up, its conditions, and since when each is so."""

from dataclasses import replace

from app.core.model.probing import ShootState
from app.prober import status
from app.prober.rules import state
from app.prober.status import Condition, ShootStatus


class Portrait:
    """Draws state and conditions from what is known, and keeps the times of their changes."""

    def __init__(self, now: float) -> None:
        self._state = ShootState.PENDING
        self._since = now
        self._conditions: tuple[Condition, ...] = ()

    def note(self, facts: ShootStatus, now: float) -> ShootState:
        """Notes what has changed at `now`; returns the state."""
        word = state.state(_standing(facts))
        if word is not self._state:
            self._state, self._since = word, now
        self._conditions = status.conditions(facts, self._conditions, now)
        return word

    def update(self, facts: ShootStatus, now: float) -> ShootStatus:
        """`facts` with state, reason, message and conditions as of `now`."""
        word, decision = self.note(facts, now), facts.decision
        return replace(
            facts,
            state=word,
            reason=facts.reason if decision is None else decision.reason,
            message=_message(facts),
            since=self._since,
            conditions=self._conditions,
        )


def _standing(facts: ShootStatus) -> state.Standing:
    return state.Standing(
        facts.decision,
        late=facts.tally is not None and facts.tally.candidates.expired > 0,
        protected=facts.protected_since is not None,
        flow=facts.flow,
        scaling_failed=facts.scaling_failure is not None,
    )


def _message(facts: ShootStatus) -> str:
    said = facts.message if facts.decision is None else facts.decision.message
    if facts.protected_since is None or not facts.at_zero:
        return said
    *others, last = facts.at_zero
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"{said}; {names} at 0"
