"""Notices for tests to which only their kind matters."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from app.core.model.probing import NoticeKind, Verdict
from app.core.reporting.notices import (
    LifecycleChanged,
    Notice,
    OverrideNotice,
    Probed,
    ScalingNotice,
    VerdictChanged,
    WeedingNotice,
)

A_PROBE: Final = partial(Probed, failed=False, probes={}, durations={}, seconds=0.0, leases=None)
OF_KIND: Final[Mapping[NoticeKind, Callable[..., Notice]]] = {
    NoticeKind.LOOK: A_PROBE,
    NoticeKind.VERDICT: partial(VerdictChanged, would_be=Verdict.HOLD),
    NoticeKind.SCALE: ScalingNotice,
    NoticeKind.OVERRIDE: OverrideNotice,
    NoticeKind.LIFECYCLE: LifecycleChanged,
    NoticeKind.WEED: partial(WeedingNotice, service="kube-apiserver"),
}
