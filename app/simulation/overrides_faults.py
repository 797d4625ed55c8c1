"""What can happen to the ConfigMap of the overrides, to its watch, and to reviews."""

from typing import Final

from app.simulation.stage import Fault, Stage
from app.simulation.traffic import Trouble

_KIND: Final = "ConfigMap"
_WHAT: Final = frozenset({"configmaps"})
_REVIEWS: Final = frozenset({"tokenreviews", "subjectaccessreviews"})


class OverridesFaults:
    """What can happen to overrides and reviews."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def overrides_forbidden(self, *verbs: str) -> Fault:
        """403 for requests for ConfigMaps, with these verbs or with any; a watch that is open ends."""
        if not verbs or "watch" in verbs:
            self._stage.watches.cut(_KIND)
        return self._trouble(Trouble(forbidden=True, verbs=frozenset(verbs), what=_WHAT))

    def overrides_watch_cut(self, *, expired: bool = False) -> Fault:
        """The watch of the overrides breaks, and new ones are refused.

        Args:
            expired: whether the server has forgotten in the end what happened meanwhile.
        """
        stage, verbs = self._stage, frozenset({"list", "watch"})
        stage.watches.cut(_KIND)
        trouble = self._trouble(Trouble(refused=True, verbs=verbs, what=_WHAT))

        def undo() -> None:
            if expired:
                stage.store.compact(_KIND)
            trouble.lift()

        return Fault(undo)

    def overrides_watch_stalled(self, *, contact_ago: float = 0.0) -> Fault:
        """The watch of the overrides delivers nothing more; its last contact was `contact_ago` seconds before now."""
        watches = self._stage.watches
        watches.stall(_KIND, contact_ago=contact_ago)
        return Fault(lambda: watches.go_on(_KIND))

    def overrides_watch_mute(self) -> Fault:
        """The watch of the overrides opens and passes nothing on, while requests get through."""
        watches = self._stage.watches
        watches.mute(_KIND)
        return Fault(lambda: watches.go_on(_KIND))

    def overrides_away(self) -> Fault:
        """Requests for ConfigMaps, whatever they are, get no answer; the watch breaks."""
        self._stage.watches.cut(_KIND)
        return self._trouble(Trouble(refused=True, what=_WHAT))

    def reviews_forbidden(self, *what: str) -> Fault:
        """403 for `tokenreviews` or `subjectaccessreviews`, or for both."""
        return self._trouble(Trouble(forbidden=True, what=frozenset(what) or _REVIEWS))

    def reviews_away(self, *what: str) -> Fault:
        """No answer to `tokenreviews` or `subjectaccessreviews`, or to both."""
        return self._trouble(Trouble(silent=True, what=frozenset(what) or _REVIEWS))

    def _trouble(self, trouble: Trouble) -> Fault:
        self._stage.api.begin(trouble)
        return Fault(lambda: self._stage.api.end(trouble))
