"""Notices for tests to which only their kind matters."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from app.core.model.probing import NoticeKind, Verdict
from app.core.model.scaling_runs import StepResult, Trigger
from app.core.model.workloads import Direction
from app.core.reporting import notices

A_PROBE: Final = partial(
    notices.Probed, failed=False, probes={}, durations={}, seconds=0.0, leases=None
)
SCALED_DOWN: Final = partial(
    notices.ResourceScaled,
    direction=Direction.DOWN,
    result=StepResult.DONE,
    trigger=Trigger.AUTO,
    operation="op-1",
    before=1,
    after=0,
    requested_at=None,
)
OF_KIND: Final[Mapping[NoticeKind, Callable[..., notices.Notice]]] = {
    NoticeKind.LOOK: A_PROBE,
    NoticeKind.VERDICT: partial(notices.VerdictChanged, would_be=Verdict.HOLD),
    NoticeKind.SCALE: notices.ScalingNotice,
    NoticeKind.OVERRIDE: notices.OverrideNotice,
    NoticeKind.LIFECYCLE: notices.LifecycleChanged,
    NoticeKind.WEED: partial(notices.WeedingNotice, service="kube-apiserver"),
}
