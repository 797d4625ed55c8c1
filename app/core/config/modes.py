"""Lease mode or endpoint mode: which of the two a prober file chooses, and what it changes."""

from dataclasses import dataclass
from typing import Final

from app.core.config.fields import Section
from app.core.config.findings import Findings
from app.core.config.scalars import duration, object_name
from app.core.model.policy import EndpointMode, ProberPolicy

LEASE_MODE_KEY: Final = "kubeConfigSecretName"
ENDPOINT_MODE_KEYS: Final = ("internalKubeConfigSecretName", "externalKubeConfigSecretName")
"""Both together choose endpoint mode."""
BACKOFF_KEY: Final = "internalProbeFailureBackoffDuration"
LIMIT_KEY: Final = "nodeLeaseFailureFraction"

_LEASE_MODE: Final = ProberPolicy(kubeconfig_secret="", dependents=())
_ENDPOINT_MODE: Final = EndpointMode(external_secret="")


@dataclass(frozen=True, slots=True)
class Mode:
    """What the choice of a mode decides."""

    kubeconfig_secret: str
    """In endpoint mode, that of the internal path."""
    endpoint: EndpointMode | None
    """None in lease mode."""
    failure_threshold: int = _LEASE_MODE.failure_threshold
    """The default; so is the next."""
    success_threshold: int = _LEASE_MODE.success_threshold


def read_mode(top: Section, findings: Findings) -> Mode:
    """The mode that a prober file chooses; keys that have no effect in it are warned of."""
    given = [key for key in ENDPOINT_MODE_KEYS if top.node(key) is not None]
    if not given:
        return _lease_mode(top, findings)
    if top.node(LEASE_MODE_KEY) is None:
        _refuse_half(top, given, findings)
    else:
        _refuse_both(top, given, findings)
    return _endpoint_mode(top, findings)


def _refuse_half(top: Section, given: list[str], findings: Findings) -> None:
    for key in ENDPOINT_MODE_KEYS:
        if key not in given:
            message = f"is required beside {given[0]}: endpoint mode compares two paths"
            findings.mistake(top.place(key), message)


def _refuse_both(top: Section, given: list[str], findings: Findings) -> None:
    message = f"chooses lease mode, while {given[0]} chooses endpoint mode: only one can be"
    findings.mistake(top.place(LEASE_MODE_KEY), message)
    top.value(LEASE_MODE_KEY, object_name, "")  # what is wrong with it in itself
    for key in given:
        message = (
            f"chooses endpoint mode, while {LEASE_MODE_KEY} chooses lease mode: only one can be"
        )
        findings.mistake(top.place(key), message)


def _lease_mode(top: Section, findings: Findings) -> Mode:
    top.value(BACKOFF_KEY, duration(zero=True), 0.0)
    _warn_without_effect(top, BACKOFF_KEY, "endpoint mode", findings)
    return Mode(top.required(LEASE_MODE_KEY, object_name) or "", None)


def _endpoint_mode(top: Section, findings: Findings) -> Mode:
    internal, external = (top.value(key, object_name, "") for key in ENDPOINT_MODE_KEYS)
    if internal and internal == external:
        message = (
            "is the internal path's Secret too: the two paths are one, and no outage can be told"
        )
        findings.warn(top.place(ENDPOINT_MODE_KEYS[1]), message)
    _warn_without_effect(top, LIMIT_KEY, "lease mode", findings)
    backoff = top.value(BACKOFF_KEY, duration(zero=True), _ENDPOINT_MODE.internal_failure_backoff)
    return Mode(internal, EndpointMode(external, backoff), failure_threshold=3, success_threshold=1)


def _warn_without_effect(top: Section, key: str, mode: str, findings: Findings) -> None:
    if top.node(key) is not None:
        findings.warn(top.place(key), f"has an effect in {mode} only; remove it")
