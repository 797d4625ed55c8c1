"""Which flows differ from what was last told of them."""

from collections.abc import Iterable

from app.api import operations_view
from app.api.schemas.events import EventName
from app.api.streaming import wire
from app.api.streaming.told import Told
from app.api.views import FlowsView
from app.core.model.operations import Operation
from app.core.reporting.changes import ChangeKind


class OperationNews:
    """The flows of the prober."""

    def __init__(self, view: FlowsView) -> None:
        self._view = view
        self._told: dict[str, Operation] = {}

    @property
    def running(self) -> bool:
        """Whether one ran when they were drawn last: not every step of it comes with a notice."""
        return any(each.running for each in self._told.values())

    def draw(self) -> Iterable[Told]:
        """The events that tell of those that are new, or have come further."""
        now = {each.id: each for each in self._view.operations()}
        before, self._told = self._told, now
        # Ended ones are the same objects as before: looking at them costs next to nothing.
        return [_told(each) for name, each in now.items() if before.get(name) != each]

    def snapshot(self) -> Iterable[Told]:
        """Those that run."""
        return [_told(each) for each in self._told.values() if each.running]


def _told(operation: Operation) -> Told:
    shown = operations_view.operation(operation)
    return Told(ChangeKind.OPERATION, operation.namespace, wire.body(EventName.OPERATION, shown))
