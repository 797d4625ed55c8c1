"""The flags of what serves: logs, addresses, who may call the API; declared once for parsing, help, documentation."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationInfo, field_validator

from app.core.config import api_values
from app.core.config import flag_values as values
from app.core.config.environment import AlsoFrom, CommandSettings, variable
from app.core.config.exposure import Exposure, check_mode, check_way, exposure
from app.core.config.flag_values import Address, AuthMode, LogFormat, LogLevel, ShownDefault

IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
"""The variable that every pod has."""


class ServiceSettings(CommandSettings):
    """What every command that serves needs."""

    log_level: values.Level = Field(
        LogLevel.INFO,
        description="The least severe messages to log. debug has each look of the prober with its numbers.",
    )
    log_format: values.Format = Field(
        LogFormat.JSON,
        description="json is for collectors, console for people.",
    )
    metrics_bind_addr: values.BindAddress = Field(
        Address("", 9643),
        description="Where to serve /metrics.",
    )
    health_bind_addr: values.BindAddress = Field(
        Address("", 9644),
        description="Where to serve /livez, /readyz and /healthz: on a port of their own, so that a flood of other "
        "requests cannot make the process look dead.",
    )
    api_bind_addr: Annotated[
        api_values.OptionalAddress, ShownDefault(":8080, or 127.0.0.1:8080")
    ] = Field(
        None,
        description="Where to serve the REST API. Where --auth-mode is none, only a loopback address: it is "
        "127.0.0.1:8080 there, and wherever there is neither TLS nor --allow-plain-http.",
    )

    @property
    def exposure(self) -> Exposure:
        """How the API is served."""
        return exposure(AuthMode.NONE, tls=False, plain_http=False, given=self.api_bind_addr)


def _default_mode() -> AuthMode:
    """In a cluster the seed is asked; elsewhere the API is this machine's own."""
    return AuthMode.KUBERNETES if variable(IN_CLUSTER) else AuthMode.NONE


class ApiSettings(ServiceSettings):
    """Who may call the API, and what is said of it to others."""

    auth_mode: Annotated[api_values.Mode, ShownDefault("kubernetes in a cluster, else none")] = (
        Field(
            default_factory=_default_mode,
            validate_default=True,
            description="Who is a caller of the API: kubernetes asks the seed about tokens for the audience "
            "dependency-watchdog, token knows those of --auth-token-file, none lets everybody do everything.",
        )
    )
    auth_token_file: values.OptionalFile = Field(
        None,
        validate_default=True,
        description="The callers for --auth-mode=token (YAML): name, role and the SHA-256 of the token of each. Nobody "
        "else on the machine may be able to read it; re-read as it changes.",
    )
    tls_cert_file: values.OptionalFile = Field(
        None,
        description="The certificate of the API and those that vouch for it (PEM): with it the API speaks TLS. Re-read "
        "as it changes.",
    )
    tls_private_key_file: values.OptionalFile = Field(
        None,
        validate_default=True,
        description="The private key of --tls-cert-file (PEM, not encrypted). Nobody else on the machine may be able "
        "to read it.",
    )
    allow_plain_http: values.Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        validate_default=True,
        description="Serve the API without TLS on an address that others can reach: for a mesh or proxy that encrypts "
        "what comes here.",
    )
    metrics_auth: values.Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Ask the seed whether a caller of --metrics-bind-addr may get /metrics; off, it is open.",
    )
    cors_allow_origin: api_values.Origins = Field(
        (),
        description="Whose pages may read the API from a browser, such as https://dashboard.example.org.",
    )
    trusted_proxies: api_values.Networks = Field(
        (),
        description="Proxies in front of the API, as IP addresses or networks: whom a request comes from is what they "
        "say in X-Forwarded-For. Of everybody else that header is not read.",
    )
    peer_url: api_values.Url = Field(
        None,
        description="Where the API of the other loop is, when prober and weeder are two Deployments: answers name it.",
    )
    advertise_address: Annotated[api_values.ReachableAddress, AlsoFrom("POD_IP")] = Field(
        None,
        description="The IP address of this replica, as others reach it; POD_IP says it too.",
    )
    leader_endpointslice: api_values.SliceName = Field(
        None,
        description="The EndpointSlice of the own namespace that the leader writes its address into.",
    )

    @field_validator("auth_mode")
    @classmethod
    def _admins_are_here(cls, mode: AuthMode, info: ValidationInfo) -> AuthMode:
        check_mode(mode, info.data.get("api_bind_addr"))
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
        certificate = info.data.get("tls_cert_file")
        if (certificate is None) == (key is None) or "tls_cert_file" not in info.data:
            return key
        raise ValueError("must be given together with --tls-cert-file")

    @field_validator("allow_plain_http")
    @classmethod
    def _tokens_are_safe(cls, plain: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic's signature
        """Checked on the last of them; where one of the others is wrong, that is said alone."""
        found = info.data
        if found.keys() >= {"api_bind_addr", "auth_mode", "tls_cert_file", "tls_private_key_file"}:
            tls, given = found["tls_cert_file"] is not None, found["api_bind_addr"]
            check_way(found["auth_mode"], tls=tls, plain_http=plain, given=given)
        return plain

    @property
    def exposure(self) -> Exposure:
        """How the API is served."""
        return exposure(
            self.auth_mode,
            tls=self.tls_cert_file is not None,
            plain_http=self.allow_plain_http,
            given=self.api_bind_addr,
        )
