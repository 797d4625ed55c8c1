"""The flags of the commands that serve or check: type, default, unit and purpose.

Each flag is declared once, here, for parsing, `--help` and the documentation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.core.config import values
from app.core.config.flags import (
    ORIGINAL_FLAGS,
    AlsoFrom,
    CommandSettings,
    ShownDefault,
    from_environment,
    variable,
)
from app.core.config.values import AuthMode, FileKind, ListenAddress, LogFormat, LogLevel
from app.core.errors import Mistake
from app.core.model.instants import format_duration
from app.core.model.names import is_label

IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
"""An environment variable that Kubernetes sets in every container; a mounted ServiceAccount a pod may lack."""
SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_QPS: Final = 5.0
DEFAULT_BURST: Final = 10
RETRY_SHARE: Final = 1.2
"""The renew deadline must exceed the retry period times this: client-go's jitter factor of leader election."""

# Where the REST API listens depends on how callers are authenticated and whether tokens are encrypted in transit.
#
# --auth-mode           and                        --api-bind-addr given    not given
# none                                             there, if loopback       127.0.0.1:8080
# token or kubernetes   TLS, or --allow-plain-http there                    :8080
# token or kubernetes   neither                    a mistake                127.0.0.1:8080, the feature `api` is off
#
# The mistake is one on loopback, too: pods may share a network namespace, as with `hostNetwork` or a mesh's sidecar.

EVERYWHERE: Final = ListenAddress("", 8080)
HERE_ONLY: Final = ListenAddress("127.0.0.1", 8080)
API_FEATURE: Final = "api"
_OFF: Final = (
    f"the API is on {HERE_ONLY} only: there is neither --tls-cert-file with --tls-private-key-file "
    "nor --allow-plain-http"
)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where and how the API is served."""

    mode: AuthMode
    address: ListenAddress
    tls: bool = False
    off: str | None = None
    """Why the API listens on loopback only although callers are authenticated; None if that is not the case."""


class ServiceSettings(CommandSettings, BaseSettings):
    """The flags that all commands with HTTP servers share.

    Defaults are validated, too: whether one will do may depend on other flags.
    """

    model_config = SettingsConfigDict(validate_default=True)

    log_level: values.Level = LogLevel.INFO
    """The least severe messages to log. debug has each probe of the prober with its numbers."""
    log_format: Annotated[LogFormat, values.choice(LogFormat)] = LogFormat.JSON
    """json is for collectors, console for people."""
    metrics_bind_addr: values.BindAddress = ListenAddress("", 9643)
    """Where to serve /metrics."""
    health_bind_addr: values.BindAddress = ListenAddress("", 9644)
    """Where to serve /livez, /readyz and /healthz: on a port of their own, so that a flood of other requests cannot
    make the process look dead."""
    api_bind_addr: Annotated[values.OptionalAddress, ShownDefault(":8080, or 127.0.0.1:8080")] = (
        None
    )
    """Where to serve the REST API. Where --auth-mode is none, only a loopback address: it is 127.0.0.1:8080 there, and
    wherever there is neither TLS nor --allow-plain-http."""

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> Self:
        return cls(**flags)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_others: Any,  # noqa: ANN401 - the sources of pydantic's own
        **_more: Any,  # noqa: ANN401 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Uses flags, then the environment that was passed in; no files, and nothing of the process's own."""
        return init_settings, InitSettingsSource(settings_cls, from_environment(settings_cls))

    @property
    def exposure(self) -> Exposure:
        """How the API is served."""
        return Exposure(AuthMode.NONE, self.api_bind_addr or HERE_ONLY)


def _default_mode() -> AuthMode:
    # In a cluster the seed authenticates callers; elsewhere the API is reachable from this machine only.
    return AuthMode.KUBERNETES if variable(IN_CLUSTER) else AuthMode.NONE


class ApiSettings(ServiceSettings):
    """The flags for authentication, TLS, and how others reach the API.

    A combination is checked with the last of its fields; if another one is wrong by itself, only that is reported.
    """

    auth_mode: Annotated[
        AuthMode, values.choice(AuthMode), ShownDefault("kubernetes in a cluster, else none")
    ] = Field(default_factory=_default_mode)
    """How callers of the API are identified: kubernetes has the seed review tokens for the audience
    dependency-watchdog, token accepts those of --auth-token-file, none lets everybody do everything."""
    auth_token_file: values.OptionalFile = None
    """The callers for --auth-mode=token (YAML): name, role and the SHA-256 of the token of each. No other user of the
    machine may be able to read it; re-read when it changes."""
    tls_cert_file: values.OptionalFile = None
    """The certificate of the API and its chain (PEM): with it the API speaks TLS. Re-read when it changes."""
    tls_private_key_file: values.OptionalFile = None
    """The private key of --tls-cert-file (PEM, not encrypted). No other user of the machine may be able to read it."""
    allow_plain_http: values.Switch = False
    """Serve the API without TLS on an address that others can reach: for a mesh or proxy that encrypts the traffic."""
    metrics_auth: values.Switch = False
    """Ask the seed whether a caller of --metrics-bind-addr may get /metrics; off, it is open."""
    cors_allow_origin: values.Origins = ()
    """Origins whose pages may read the API from a browser, such as https://dashboard.example.org."""
    trusted_proxies: values.Networks = ()
    """Proxies in front of the API, as IP addresses or networks: their X-Forwarded-For names the sender of a request.
    From others that header is ignored."""
    peer_url: values.Url = None
    """Where the API of the other loop is, when prober and weeder are two Deployments: answers name it."""
    advertise_address: Annotated[values.ReachableAddress, AlsoFrom("POD_IP")] = None
    """The IP address at which others reach this replica; POD_IP sets it too."""
    leader_endpointslice: values.SliceName = None
    """The EndpointSlice in the process's namespace that the leader writes its address into."""

    @field_validator("auth_mode")
    @classmethod
    def _everybody_only_on_loopback(cls, mode: AuthMode, info: ValidationInfo) -> AuthMode:
        given = info.data.get("api_bind_addr")
        if mode is AuthMode.NONE and given is not None and not given.loopback:
            raise ValueError(
                f"must be kubernetes or token, not none, as --api-bind-addr={given} is no loopback address"
            )
        return mode

    @field_validator("auth_token_file")
    @classmethod
    def _file_for_its_mode(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        mode = info.data.get("auth_mode")
        if mode is AuthMode.TOKEN and file is None:
            raise ValueError("is required with --auth-mode=token")
        if mode is not None and mode is not AuthMode.TOKEN and file is not None:
            raise ValueError(f"is for --auth-mode=token only, not {mode}")
        return file

    @field_validator("tls_private_key_file")
    @classmethod
    def _both_or_none(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if (info.data.get("tls_cert_file", key) is None) != (key is None):
            raise ValueError("must be given together with --tls-cert-file")
        return key

    @field_validator("allow_plain_http")
    @classmethod
    def _no_token_in_plain_text(cls, plain: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's signature
        found = info.data
        if found.keys() >= {"api_bind_addr", "auth_mode", "tls_cert_file", "tls_private_key_file"}:
            mode, given = found["auth_mode"], found["api_bind_addr"]
            safe = mode is AuthMode.NONE or plain or found["tls_cert_file"] is not None
            if not safe and given is not None:
                raise ValueError(
                    f"is required for --api-bind-addr={given} where there is no --tls-cert-file: with "
                    f"--auth-mode={mode} tokens are sent there; without --api-bind-addr the API is on {HERE_ONLY} only"
                )
        return plain

    @property
    def exposure(self) -> Exposure:
        """How the API is served."""
        mode, given, tls = self.auth_mode, self.api_bind_addr, self.tls_cert_file is not None
        if mode is AuthMode.NONE:
            return Exposure(mode, given or HERE_ONLY, tls)
        if tls or self.allow_plain_http:
            return Exposure(mode, given or EVERYWHERE, tls)
        return Exposure(mode, HERE_ONLY, off=_OFF)


def _default_where_zero(default: float) -> AfterValidator:
    return AfterValidator(lambda value: value or type(value)(default))


class SeedSettings(ApiSettings):
    """The flags that all commands working on a seed share; durations in seconds."""

    kubeconfig: values.OptionalFile = None
    """The kubeconfig of the seed; without it the ServiceAccount of the pod, re-read as it rotates."""
    kube_api_qps: Annotated[values.Number, values.at_least(0), _default_where_zero(DEFAULT_QPS)] = (
        DEFAULT_QPS
    )
    """Requests a second to the seed's API server, over time; 0 = the default. Scaling down, weeding, Events and the
    Lease have budgets of their own."""
    kube_api_burst: Annotated[
        values.Count, values.at_least(0), _default_where_zero(DEFAULT_BURST)
    ] = DEFAULT_BURST
    """The burst of requests to the seed's API server above --kube-api-qps; 0 = the default."""
    enable_leader_election: values.Switch = False
    """Act only while holding a Lease; for two replicas and more."""
    leader_election_namespace: values.Namespace = "garden"
    """The namespace of the Lease, and the process's own where no ServiceAccount is mounted."""
    leader_elect_lease_duration: values.Duration = 15.0
    """How long a Lease stays with a holder that does not renew it; at least 1s."""
    leader_elect_renew_deadline: values.Duration = 10.0
    """How long a leader that cannot renew its Lease keeps leading; less than the lease duration."""
    leader_elect_retry_period: values.Duration = 2.0
    """The pause between two attempts to take or renew the Lease; 1.2 × it must be less than the renew deadline."""
    dry_run: values.Switch = False
    """Read, judge and plan as usual, but write nothing: no patch, no deletion, no Event, no Lease. Can run beside the
    live process."""
    strict_config: values.Switch = False
    """Refuse a configuration file with unknown keys, instead of warning. Off, so that one written for a newer version
    never stops the process."""

    @classmethod
    def shared(cls) -> frozenset[str]:
        return frozenset(SeedSettings.model_fields)

    @classmethod
    def accepted(cls) -> Mapping[str, bool]:
        """The original's flags, and those of sibling commands, so that two Deployments can share them."""
        return {**ORIGINAL_FLAGS, **ProberOptions.flags(), **WeederOptions.flags()}

    @field_validator("leader_elect_lease_duration")
    @classmethod
    def _whole_second(cls, lease: float) -> float:
        if lease < 1:
            raise ValueError(f"must be at least 1s, not {format_duration(lease)}")
        return lease

    @field_validator("leader_elect_retry_period")
    @classmethod
    def _election_fits(cls, retry: float, info: ValidationInfo) -> float:
        lease = info.data.get("leader_elect_lease_duration")
        renew = info.data.get("leader_elect_renew_deadline")
        if lease is None or renew is None or lease > renew > RETRY_SHARE * retry:
            return retry
        raise ValueError(
            "must fit: --leader-elect-lease-duration > --leader-elect-renew-deadline > "
            f"1.2 × --leader-elect-retry-period, not {format_duration(lease)}, {format_duration(renew)} and "
            f"{format_duration(retry)}"
        )


class ProberOptions(SeedSettings):
    """The flags of the prober's loop; durations in seconds."""

    scale_down_qps: values.PositiveNumber = 200.0
    """Requests a second to the seed's API server for scaling down, a budget of its own: in a seed-wide outage every
    second counts."""
    concurrent_reconciles: Annotated[values.Count, values.at_least(1)] = 1
    """Changed Clusters that are processed at the same time. Probes always run concurrently."""
    cluster_domain: values.Domain = "cluster.local"
    """The DNS domain of the seed: a kubeconfig may name kube-apiserver.NAMESPACE.svc.DOMAIN."""
    shoot_server_pattern: values.Pattern = None
    """Which host:port a kubeconfig may name: a regular expression for the whole of it, instead of the rule
    kube-apiserver.NAMESPACE.svc; {namespace} is replaced."""
    external_server_pattern: values.Pattern = None
    """Which host:port the external kubeconfig of endpoint mode may name: a regular expression for the whole of it,
    instead of any; {namespace} is replaced. Only one that matches an address as it is written lets it be loopback,
    link-local, multicast or unspecified."""
    allow_exec: values.Switch = False
    """Run the commands of the prober file's exec probes inside the containers of control planes; without it, a file
    that has one is refused."""
    per_shoot_metrics: values.Switch = True
    """Export metrics with the label namespace: about twelve series for each shoot."""


class WeederOptions(SeedSettings):
    """The flags of the weeder's loop."""

    max_deletions_per_second: values.PositiveNumber = 20.0
    """Pods deleted a second in the whole seed, over time: a budget of its own, shared fairly between namespaces."""


class ProberSettings(ProberOptions):
    """The flags of `dwd prober`.

    Watches the shoots of a seed, and scales controllers to 0 while a shoot's nodes cannot reach their API server, and
    back.
    """

    line: ClassVar[str] = "dwd prober --config-file FILE [flags]"

    config_file: values.File
    """The prober file (YAML)."""
    enable_leader_election: values.Switch = False
    """Act only while holding the Lease dwd-prober-leader-election; for two replicas and more."""


class WeederSettings(WeederOptions):
    """The flags of `dwd weeder`.

    Watches the services of a seed's control planes. When one is ready again, it deletes the pods that depend on it and
    wait in CrashLoopBackOff, so that they start at once.
    """

    line: ClassVar[str] = "dwd weeder --config-file FILE [flags]"

    config_file: values.File
    """The weeder file (YAML)."""
    enable_leader_election: values.Switch = False
    """Act only while holding the Lease dwd-weeder-leader-election; for two replicas and more."""


class ServeSettings(WeederOptions, ProberOptions):
    """The flags of `dwd serve`, which runs both loops.

    Runs the prober and the weeder in one process. It weeds only while it leads as prober, too.
    """

    line: ClassVar[str] = "dwd serve --prober-config-file FILE --weeder-config-file FILE [flags]"

    prober_config_file: values.File
    """The prober file (YAML)."""
    weeder_config_file: values.File
    """The weeder file (YAML)."""
    enable_leader_election: values.Switch = False
    """Act only while holding the Lease dwd-prober-leader-election, and weed only while holding
    dwd-weeder-leader-election as well; for two replicas and more."""


class DemoSettings(ServiceSettings):
    """The flags of `dwd demo`, whose defaults suit a terminal; everything stays on the machine.

    Runs the prober and the weeder on a simulated seed, plays outages there, and shows their effect on the shoots, with
    the watchdog and without it.
    """

    line: ClassVar[str] = "dwd demo [flags]"

    log_format: Annotated[LogFormat, values.choice(LogFormat)] = LogFormat.CONSOLE
    """json is for collectors, console for people."""
    log_file: values.OptionalFile = None
    """Where the log goes, as the terminal is in use; by default a temporary file that is deleted at the end."""
    metrics_bind_addr: values.BindAddress = ListenAddress("127.0.0.1", 9643)
    """Where to serve /metrics."""
    health_bind_addr: values.BindAddress = ListenAddress("127.0.0.1", 9644)
    """Where to serve /livez, /readyz and /healthz."""
    api_bind_addr: values.LoopbackAddress = HERE_ONLY
    """Where to serve the REST API. Only a loopback address: everybody there may do everything."""
    shoots: Annotated[values.Count, values.at_least(1)] = 30
    """Simulated shoots, including those of the scenario; at least one more than those."""
    nodes: Annotated[values.Count, values.at_least(2)] = 10
    """Nodes of each simulated shoot; at least 2, as a single lease is no reason to scale down."""
    seed: Annotated[values.Count, values.at_least(0)] = 1
    """The random seed: when kubelets renew, which nodes are hit."""
    speed: values.PositiveNumber = 1.0
    """The factor by which pauses between scenes are shorter. Time itself runs at its usual pace: an outage is detected
    no sooner."""
    scenario: Annotated[str, values.AsText("NAME|FILE")] = "story"
    """What happens: a built-in scenario, or a file of your own (docs/demo.md)."""
    list_scenarios: values.Switch = False
    """Only print the built-in scenarios."""


class CheckConfigSettings(CommandSettings):
    """The flags of `dwd check-config`.

    Checks prober and weeder files offline: prints all mistakes with path and line, and questionable settings.
    """

    line: ClassVar[str] = "dwd check-config [flags] FILE…"

    kind: Annotated[FileKind | None, values.choice(FileKind)] = None
    """The kind of the files; by default, one with servicesAndDependantSelectors or watchDuration is the weeder's."""
    strict_config: values.Switch = True
    """Refuse unknown keys; false only warns, as the running program does by default."""
    allow_exec: values.Switch = False
    """Accept exec probes, as a program with this flag does."""

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        if not words:
            yield Mistake(None, "FILE", "is missing: name the files to check")


class VersionSettings(CommandSettings):
    """`dwd version` has no flags.

    Prints version, Python and platform.
    """

    line: ClassVar[str] = "dwd version"


class Shell(StrEnum):
    """A shell whose command lines can be completed."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class CompletionSettings(CommandSettings):
    """`dwd completion` has no flags.

    Prints a script that completes command lines of dwd in your shell, names of shoots included: source <(dwd completion
    bash), or dwd completion fish | source.
    """

    line: ClassVar[str] = "dwd completion bash|zsh|fish"

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        if len(words) != 1 or words[0] not in set(Shell):
            yield Mistake(None, "SHELL", f"must be one of {', '.join(Shell)}")


_Options = TypeVar("_Options", ProberOptions, WeederOptions)


def of_loop(settings: SeedSettings, options: type[_Options]) -> _Options:
    """Returns the flags of a loop; their defaults where it does not run here."""
    return settings if isinstance(settings, options) else options()


def own_namespace(settings: SeedSettings, mounted: Path = SERVICE_ACCOUNT_NAMESPACE) -> str:
    """Returns the process's own namespace: that of its ServiceAccount, otherwise `--leader-election-namespace`."""
    try:
        found = mounted.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return settings.leader_election_namespace
    return found if is_label(found) else settings.leader_election_namespace
