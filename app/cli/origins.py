"""Which address may be followed, where a token may be sent, and which pod a leader is; pure."""

import ipaddress
from typing import Final

from app.core.config.clientvalues import Origin, origin
from app.core.config.names import is_label, is_subdomain

_SERVICE_LABELS: Final = 3
"""NAME.NAMESPACE.svc, at least."""


def of_leader(asked: Origin, address: str) -> Origin | None:
    """Where the leader is that a standby names: the scheme that was asked, and its port unless another one is named.

    Args:
        asked: the server that named it.
        address: what it named: `10.0.0.7`, `10.0.0.7:8080`, `[fd00::1]:8080` or an URL.

    Returns:
        None where that is no address, or one that is plain http while the server was asked through TLS.
    """
    text = address if "://" in address else f"{asked.scheme}://{_bracketed(address)}"
    try:
        found = origin(text)
    except ValueError:
        return None
    if found.scheme != asked.scheme and found.scheme == "http":
        return None
    named = "://" in address or ":" in text.partition("://")[2].rpartition("]")[2]
    return found if named else Origin(found.scheme, found.host, asked.port)


def _bracketed(address: str) -> str:
    try:
        return f"[{ipaddress.IPv6Address(address)}]"
    except ValueError:
        return address


def of_peer(asked: Origin, url: str) -> Origin | None:
    """Where the process of the other loop is; None where that cannot be said, or would be a step down from TLS."""
    try:
        found = origin(url)
    except ValueError:
        return None
    return None if asked.scheme == "https" and found.scheme == "http" else found


def exposes(target: Origin) -> bool:
    """Whether a token that is sent there can be read on the way."""
    return target.scheme == "http" and not target.loopback


def pod_of(identity: str | None) -> str | None:
    """The pod of a leader, whose identity is `POD_UUID`; None where it is not of that form."""
    pod, line, _ = (identity or "").rpartition("_")
    return pod if line and is_subdomain(pod) else None


def deployment_of(pod: str) -> str:
    """The name of the Deployment that a pod most likely belongs to: `NAME-REPLICASET-POD` without the last two."""
    name = pod.rsplit("-", 2)[0]
    return name if is_label(name) else pod


def service_of(peer: Origin, namespace: str) -> str | None:
    """The Service that a peer's URL names, where it is one of this namespace."""
    name, *rest = peer.host.split(".")
    inside = len(rest) >= _SERVICE_LABELS - 1 and rest[0] == namespace and rest[1] == "svc"
    return name if inside and is_label(name) else None
