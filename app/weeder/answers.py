"""What the answer to a deletion means (rules 6, answers)."""

from dataclasses import dataclass
from typing import Final

from app.core.errors import ClusterError, Conflict, Forbidden, NotFound, ServerFault, Throttled
from app.core.model.weeding import Result


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request to delete a pod, and what is to be done about it."""

    result: Result
    counts: bool
    """Whether the pod was deleted, or may have been: it counts to the caps then."""
    next_version: bool = False
    """It is judged again when another version of it is seen."""
    again: bool = False
    """The same is asked for again."""
    retry_after: float | None = None
    """The pause before that, in seconds, where the server named one."""


_DONE: Final = Answer(Result.DELETED, counts=True)
UNKNOWN: Final = Answer(Result.ERROR, counts=True, again=True)
"""Nobody knows whether the pod was deleted."""


def answer(error: ClusterError | None) -> Answer:
    """The meaning of an error, or of none."""
    match error:
        case None:
            return _DONE
        case NotFound():
            return Answer(Result.GONE, counts=False, next_version=True)
        case Conflict():
            return Answer(Result.CONFLICT, counts=False, next_version=True)
        case Forbidden():
            return Answer(Result.ERROR, counts=False)
        case Throttled() | ServerFault(status=503):
            pause = error.retry_after
            return Answer(Result.ERROR, counts=False, again=True, retry_after=pause)
        case _:
            # The pod may be deleted where there is no answer, none that can be understood, or one of a server that
            # waited in vain for its storage (500, 504).
            refused = error.status is not None and 400 <= error.status < 500  # noqa: PLR2004 - a class of statuses
            pause = error.retry_after
            return Answer(Result.ERROR, counts=not refused, again=True, retry_after=pause)
