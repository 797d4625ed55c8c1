"""A process, and what is wrong with it."""

from pydantic import Field

from app.api.schemas.base import GoDuration, Order, Schema, Time
from app.api.schemas.overrides import Pause
from app.core.config.flag_values import LogLevel
from app.core.model.endpoints import Effect, ProbeType, Scheme
from app.core.model.policy import OnFailure
from app.core.model.selectors import Operator


class Leader(Schema):
    """Who leads a loop."""

    identity: str | None
    address: str | None


class FeatureOff(Schema):
    """A feature that is off."""

    feature: str
    reason: str


class MissingPermission(Schema):
    """A right that is missing."""

    verb: str
    group: str
    resource: str
    name: str | None
    namespace: str | None
    feature: str | None
    """The feature that is off without it; null: needed to protect."""


class ConfigFinding(Schema):
    """Something in flags or file that deserves a look."""

    path: str
    line: int | None
    message: str


class Status(Schema):
    """This process."""

    version: str
    started_at: Time
    role: str
    """`leader` or `standby`."""
    dry_run: bool
    leaders: dict[str, Leader]
    """By loop."""
    counts: dict[str, int] | None
    """Shoots in each state; null on a standby."""
    pause: Pause | None
    """Of all shoots."""
    features_off: list[FeatureOff]
    missing_permissions: list[MissingPermission]
    config_warnings: list[ConfigFinding]
    found_unconfigured: list[str]
    """Objects that carry the meltdown key and are not configured: never written."""
    selectors_without_pods: list[str]
    """Selectors of the weeder that have matched no pod for an hour."""


# What is configured, in the words of the command line and of the files.


FlagValue = bool | int | float | str | list[str] | None


class Ref(Schema):
    """Names a dependent."""

    api_version: str
    kind: str
    name: str


class ScaleInfo(Schema):
    """How a dependent is scaled in one direction."""

    level: int
    initial_delay: GoDuration
    timeout: GoDuration


class DependentResourceInfo(Schema):
    """One dependent."""

    ref: Ref
    optional: bool
    scale_up: ScaleInfo
    scale_down: ScaleInfo


class MatchExpression(Schema):
    """One condition on a label; `values` is empty with Exists and DoesNotExist."""

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
    """Always `[redacted]`: it may be a secret."""


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
    """One endpoint probe; of its four handlers one has a value, as has one of `host` and `podSelector`."""

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
    """The prober file as it is in force, defaults included."""

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
    """The weeder file as it is in force, defaults included."""

    watch_duration: GoDuration
    services_and_dependant_selectors: dict[str, PodSelectors]
    max_deletions_per_workload: int
    min_backoff_remaining: GoDuration
    weed_bare_pods: bool


class Config(Schema):
    """The effective configuration of this process."""

    log_level: LogLevel
    """In force now; `flags` has the one that it was started with."""
    flags: dict[str, FlagValue]
    """By name; of files the path, never what is in them."""
    prober: ProberFile | None
    """Null where the prober does not run here."""
    weeder: WeederFile | None
    """Null where the weeder does not run here."""
    warnings: list[ConfigFinding]


class LogLevelOrder(Order):
    """How much is to be logged."""

    level: LogLevel = Field(description="The least severe messages to log.")


class LogLevelNow(Schema):
    """How much is logged from now on, until the next start."""

    level: LogLevel
