"""What the metrics show of the results of endpoint probes; pure."""

from collections.abc import Iterable

from app.core.model.endpoints import ProbeType
from app.prober.endpoints.views import EndpointView
from app.prober.rules.endpoints import Result, Waiting


def succeeded(views: Iterable[EndpointView]) -> dict[str, bool]:
    """By the name of a probe: whether all its targets that say something are well; without those that say nothing.

    A container that is not running says that it is not ready, though that counts nowhere else.
    """
    found: dict[str, bool] = {}
    for each in views:
        stopped = each.waiting is Waiting.NOT_RUNNING and each.type is ProbeType.READINESS
        if each.counted or stopped:
            well = each.counted and each.result is Result.SUCCESS
            found[each.name] = found.get(each.name, True) and well
    return found
