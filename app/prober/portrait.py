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
        self._facts: ShootStatus | None = None
        """What state and conditions were drawn from; None where they must be drawn anew."""
        self._drawn: ShootStatus | None = None
        """The facts with all that was drawn from them, where somebody asked."""

    def outline(self, namespace: str, standing: state.Standing, now: float) -> Outline:
        """The state as of `now`, and since when."""
        word = state.state(standing)
        if word is not self._state:
            self._state, self._since, self._facts = word, now, None
        return Outline(namespace, word, self._since)

    def note(self, facts: ShootStatus, now: float) -> ShootState:
        """Notes what has changed at `now`; returns the state."""
        if facts != self._facts:
            _ = self.outline(facts.namespace, _standing(facts), now)
            self._conditions = status.conditions(facts, self._conditions, now)
            self._facts, self._drawn = facts, None
        return self._state

    def update(self, facts: ShootStatus, now: float) -> ShootStatus:
        """`facts` with state, reason, message and conditions as of `now`."""
        word, decision = self.note(facts, now), facts.decision
        if self._drawn is None:
            self._drawn = replace(
                facts,
                state=word,
                reason=facts.reason if decision is None else decision.reason,
                message=_message(facts),
                since=self._since,
                conditions=self._conditions,
            )
        return self._drawn


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
    if facts.less_often:
        said += f"; {share.PROBED_LESS_OFTEN}"
    if facts.protected_since is None or not facts.at_zero:
        return said
    *others, last = facts.at_zero
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"{said}; {names} at 0"
