"""The kubelet's prober as it is written down in Go, again: what our rules are compared with.

Line by line after `worker.doProbe`, `worker.run`, `manager.StopLivenessAndStartup`, `prober.runProbeWithRetries` and
`results.manager`, with their names; it shares nothing with the code that it judges. What the listing leaves out is
marked: the check of `c.State.Running` is the kubelet's, and acts as the specification says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

MAX_PROBE_RETRIES = 3


class ProbeError(Exception):
    """`err != nil`."""


@dataclass
class ContainerStatus:
    """`v1.ContainerStatus`."""

    container_id: str = ""
    running: bool = True
    started_at: float = 0.0


@dataclass
class PodStatus:
    """`v1.PodStatus`, and of the pod `DeletionTimestamp`."""

    phase: str = "Running"
    container: ContainerStatus | None = None
    deletion_timestamp: bool = False


@dataclass
class ResultsManager:
    """`results.manager`."""

    cache: dict[str, str] = field(default_factory=dict)
    updates: list[tuple[str, str]] = field(default_factory=list)

    def set(self, container_id: str, result: str) -> None:
        if self.set_internal(container_id, result):
            self.updates.append((container_id, result))

    def set_internal(self, container_id: str, result: str) -> bool:
        prev = self.cache.get(container_id)
        if prev is None or prev != result:
            self.cache[container_id] = result
            return True
        return False

    def remove(self, container_id: str) -> None:
        self.cache.pop(container_id, None)


class KubeletWorker:
    """`worker`, and of its manager what stops it."""

    def __init__(
        self, probe_type: str, spec: tuple[int, int, int], run_probe: Callable[[], bool]
    ) -> None:
        self.probe_type = probe_type
        self.initial_delay_seconds, self.success_threshold, self.failure_threshold = spec
        self.run_probe = run_probe
        self.results_manager = ResultsManager()
        self.initial_value = {
            "Readiness": "Failure",
            "Liveness": "Success",
            "Startup": "Unknown",
        }[probe_type]
        self.container_id = ""
        self.last_result = "Success"  # the zero value of results.Result
        self.result_run = 0
        self.on_hold = False
        self.gone = False

    def tick(self, status: PodStatus | None, now: float) -> None:
        """One turn of `run`, and what the kubelet does with a pod that it is told to end."""
        if self.gone:
            return
        keep_going = self.do_probe(status, now)
        if keep_going and status is not None and status.deletion_timestamp:
            keep_going = not self.stop_liveness_and_startup()
        if not keep_going:
            if self.container_id:
                self.results_manager.remove(self.container_id)
            self.gone = True

    def stop_liveness_and_startup(self) -> bool:
        return self.probe_type in {"Liveness", "Startup"}

    def do_probe(self, status: PodStatus | None, now: float) -> bool:  # noqa: C901, PLR0911, PLR0912  as it is in Go
        if status is None:
            return True

        if status.phase in {"Failed", "Succeeded"}:
            return False

        c = status.container
        if c is None or len(c.container_id) == 0:
            return True

        if self.container_id != c.container_id:
            if self.container_id:
                self.results_manager.remove(self.container_id)
            self.container_id = c.container_id
            self.results_manager.set(self.container_id, self.initial_value)
            self.on_hold = False

        if self.on_hold:
            return True

        if not c.running:  # not in the listing
            if self.probe_type == "Readiness":
                self.results_manager.set(self.container_id, "Failure")
            return True

        if status.deletion_timestamp and self.probe_type in {"Liveness", "Startup"}:
            self.results_manager.set(self.container_id, "Success")
            return False

        if int(now - c.started_at) < self.initial_delay_seconds:
            return True

        # Not in the listing: a container that has started is not asked again whether it has.
        if self.probe_type == "Startup" and self.started():
            return True

        try:
            result = self.probe()
        except ProbeError:
            return True

        if self.last_result == result:
            self.result_run += 1
        else:
            self.last_result = result
            self.result_run = 1

        if (result == "Failure" and self.result_run < self.failure_threshold) or (
            result == "Success" and self.result_run < self.success_threshold
        ):
            return True

        self.results_manager.set(self.container_id, result)

        if self.probe_type in {"Liveness", "Startup"} and result == "Failure":
            self.on_hold = True
            self.result_run = 0

        return True

    def started(self) -> bool:
        return self.results_manager.cache.get(self.container_id) == "Success"

    def probe(self) -> str:
        error: ProbeError | None = None
        for _ in range(MAX_PROBE_RETRIES):
            try:
                return "Success" if self.run_probe() else "Failure"
            except ProbeError as err:
                error = err
        assert error is not None
        raise error
