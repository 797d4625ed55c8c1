"""Work in slices, done without a rest."""

from app.core.metrics import Slices


def at_once(work: Slices) -> str:
    """The whole text."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)
