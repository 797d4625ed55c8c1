"""A process: its status and its configuration."""

from pydantic import Field

from app.api.schemas.base import GoDuration, Order, Schema, Time
from app.api.schemas.overrides import Pause
from app.core.config.flag_values import LogLevel
from app.core.model.endpoints import Effect, ProbeType, Scheme
from app.core.model.policy import OnFailure
from app.core.model.selectors import Operator


class Leader(Schema):
    """The leader of a loop."""

    identity: str | None
    address: str | None


class FeatureOff(Schema):
    """A feature that is off."""

    feature: str
    reason: str


class MissingPermission(Schema):
    """A permission that the process lacks."""

    verb: str
    group: str
    resource: str
    name: str | None
    namespace: str | None
    feature: str | None
    """The feature that is off without it; null: needed to protect."""


class ConfigFinding(Schema):
    """A warning about flags or files."""

    path: str
    line: int | None
    message: str


class Status(Schema):
    """The status of this process."""

    version: str
    identity: str
    """The holder identity of this process in the elections, as `leaders` has that of the leaders."""
    started_at: Time
    role: str
    """`leader` or `standby`."""
    dry_run: bool
    leaders: dict[str, Leader]
    """By loop."""
    counts: dict[str, int] | None
    """Number of shoots in each state; null on a standby."""
    pause: Pause | None
    """The pause of all shoots."""
    features_off: list[FeatureOff]
    missing_permissions: list[MissingPermission]
    config_warnings: list[ConfigFinding]
    found_unconfigured: list[str]
    """Objects that carry the meltdown key and are not configured; they are never written."""
    selectors_without_pods: list[str]
    """Selectors of the weeder that have matched no pod for an hour."""


# The effective configuration, with the names of flags and of the files.


FlagValue = bool | int | float | str | list[str] | None


class Ref(Schema):
    """The reference of a dependent."""

    api_version: str
    kind: str
    name: str


class ScaleInfo(Schema):
    """How a dependent is scaled in one direction."""

    level: int
    initial_delay: GoDuration
    timeout: GoDuration


class DependentResourceInfo(Schema):
    """A dependent."""

    ref: Ref
    optional: bool
    scale_up: ScaleInfo
    scale_down: ScaleInfo


class MatchExpression(Schema):
    """A requirement for a label; `values` is empty with Exists and DoesNotExist."""

    key: str
    operator: Operator
    values: list[str]


class PodSelector(Schema):
    """A LabelSelector."""

    match_labels: dict[str, str]
    match_expressions: list[MatchExpression]


class HttpHeader(Schema):
    """A header of an HTTP probe."""

    name: str
    value: str
    """Always `[redacted]`, as it may be a secret."""


class HttpGetAction(Schema):
    """Passes with an answer of 2xx or 3xx."""

    scheme: Scheme
    port: int | str
    path: str
    http_headers: list[HttpHeader]


class TcpSocketAction(Schema):
    """Passes when a connection is made."""

    port: int | str


class GrpcAction(Schema):
    """Passes when the standard health service answers SERVING."""

    port: int
    service: str


class ExecAction(Schema):
    """Passes with exit code 0."""

    command: list[str]


class EndpointProbeInfo(Schema):
    """An endpoint probe; one of its four handlers has a value, and one of `host` and `podSelector`."""

    name: str
    type: ProbeType
    effect: Effect
    http_get: HttpGetAction | None
    tcp_socket: TcpSocketAction | None
    grpc: GrpcAction | None
    exec: ExecAction | None
    host: str | None
    pod_selector: PodSelector | None
    container: str | None
    initial_delay_seconds: int
    period_seconds: int
    timeout_seconds: int
    success_threshold: int
    failure_threshold: int


class ProberFile(Schema):
    """The effective prober file, defaults included."""

    kube_config_secret_name: str | None
    """Null in endpoint mode."""
    internal_kube_config_secret_name: str | None
    """Null in lease mode, as the two below."""
    external_kube_config_secret_name: str | None
    internal_probe_failure_backoff_duration: GoDuration | None
    probe_interval: GoDuration
    initial_delay: GoDuration
    probe_timeout: GoDuration
    backoff_jitter_factor: float
    kcm_node_monitor_grace_duration: GoDuration
    node_lease_failure_fraction: float
    failure_threshold: int
    success_threshold: int
    suspect_probe_interval: GoDuration
    max_protection_duration: GoDuration | None
    on_scale_down_failure: OnFailure
    on_scale_up_failure: OnFailure
    endpoint_probes: list[EndpointProbeInfo]
    dependent_resource_infos: list[DependentResourceInfo]


class PodSelectors(Schema):
    """The pods that depend on a service."""

    pod_selectors: list[PodSelector]


class WeederFile(Schema):
    """The effective weeder file, defaults included."""

    watch_duration: GoDuration
    services_and_dependant_selectors: dict[str, PodSelectors]
    max_deletions_per_workload: int
    min_backoff_remaining: GoDuration
    weed_bare_pods: bool


class Config(Schema):
    """The effective configuration of this process."""

    log_level: LogLevel
    """The current level; `flags` has the one that the process was started with."""
    flags: dict[str, FlagValue]
    """By name; for files the path, never the content."""
    prober: ProberFile | None
    """Null if the prober does not run in this process."""
    weeder: WeederFile | None
    """Null if the weeder does not run in this process."""
    warnings: list[ConfigFinding]


class LogLevelOrder(Order):
    """A log level to set."""

    level: LogLevel = Field(description="The least severe messages to log.")


class LogLevelNow(Schema):
    """The log level in force until the next start."""

    level: LogLevel
