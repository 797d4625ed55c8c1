"""Where the REST API is served, by who may call and whether the way there is safe; pure.

--auth-mode           and                        --api-bind-addr given    not given
none                                             there, if loopback       127.0.0.1:8080
token or kubernetes   TLS, or --allow-plain-http there                    :8080
token or kubernetes   neither                    a mistake                127.0.0.1:8080, the feature `api` is off
"""

from dataclasses import dataclass
from typing import Final

from app.core.config.flag_values import Address, AuthMode

EVERYWHERE: Final = Address("", 8080)
HERE_ONLY: Final = Address("127.0.0.1", 8080)
FEATURE: Final = "api"
_OFF: Final = (
    f"the API is on {HERE_ONLY} only: there is neither --tls-cert-file with --tls-private-key-file "
    "nor --allow-plain-http"
)


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the API is served."""

    mode: AuthMode
    address: Address
    tls: bool = False
    off: str | None = None
    """Why only this machine can reach it although callers are told apart; None where that is as it should be."""


def exposure(mode: AuthMode, *, tls: bool, plain_http: bool, given: Address | None) -> Exposure:
    """How the API is served where `--api-bind-addr` is `given`, or is not.

    Raises:
        ValueError: it would be open to everybody, or tokens would travel in the clear.
    """
    check_mode(mode, given)
    check_way(mode, tls=tls, plain_http=plain_http, given=given)
    if mode is AuthMode.NONE:
        return Exposure(mode, given or HERE_ONLY, tls)
    if tls or plain_http:
        return Exposure(mode, given or EVERYWHERE, tls)
    return Exposure(mode, HERE_ONLY, off=_OFF)


def check_mode(mode: AuthMode, given: Address | None) -> None:
    """Raises ValueError where everybody would be an admin on an address that others can reach."""
    if mode is AuthMode.NONE and given is not None and not given.loopback:
        raise ValueError(
            f"must be kubernetes or token, not none, as --api-bind-addr={given} is no loopback address"
        )


def check_way(mode: AuthMode, *, tls: bool, plain_http: bool, given: Address | None) -> None:
    """Raises ValueError where tokens would travel in the clear, and nobody has said that this is fine."""
    if mode is AuthMode.NONE or tls or plain_http or given is None:
        return
    raise ValueError(
        f"is required for --api-bind-addr={given} where there is no --tls-cert-file: with "
        f"--auth-mode={mode} tokens are sent there; without --api-bind-addr the API is on {HERE_ONLY} only"
    )
