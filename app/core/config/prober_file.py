"""Parses the prober file: its keys, types, defaults and limits; YAML nodes in, `ProberPolicy` out.

The defaults are those of `ProberPolicy`; docs/configuration.md has them as a table.
"""

from dataclasses import dataclass, replace
from typing import Final

import yaml

from app.core.config.advice import known_after, late_scale_down
from app.core.config.endpoint_probes import PROBES_KEY, ProbeListContext, read_endpoint_probes
from app.core.config.fields import Findings, Keys, Section, top_section
from app.core.config.scalars import (
    api_version,
    boolean,
    duration,
    fraction,
    object_name,
    on_failure,
    resource_kind,
    whole,
)
from app.core.model.durations import format_duration
from app.core.model.overrides import LONGEST
from app.core.model.policy import DependentPolicy, EndpointMode, ProberPolicy, ScalePolicy
from app.core.model.workloads import ResourceRef

# Lease mode or endpoint mode: the names of the Secrets choose it.


LEASE_MODE_KEY: Final = "kubeConfigSecretName"
ENDPOINT_MODE_KEYS: Final = ("internalKubeConfigSecretName", "externalKubeConfigSecretName")
"""Endpoint mode is chosen by giving both."""
BACKOFF_KEY: Final = "internalProbeFailureBackoffDuration"
LIMIT_KEY: Final = "nodeLeaseFailureFraction"

_LEASE_MODE: Final = ProberPolicy(kubeconfig_secret="", dependents=())
_ENDPOINT_MODE: Final = EndpointMode(external_secret="")


@dataclass(frozen=True, slots=True)
class ModeDefaults:
    """The settings that depend on the mode."""

    kubeconfig_secret: str
    """In endpoint mode, the Secret of the internal path."""
    endpoint: EndpointMode | None
    """None in lease mode."""
    failure_threshold: int = _LEASE_MODE.failure_threshold
    """The default where the file has no such key; likewise `success_threshold`."""
    success_threshold: int = _LEASE_MODE.success_threshold


def read_mode(top: Section, findings: Findings) -> ModeDefaults:
    """Determines the mode of a prober file; warns of keys that have no effect in that mode."""
    given = [key for key in ENDPOINT_MODE_KEYS if top.node(key) is not None]
    if not given:
        return _lease_mode(top, findings)
    if top.node(LEASE_MODE_KEY) is None:
        _require_both_secrets(top, given, findings)
    else:
        _refuse_mixed_modes(top, given, findings)
    return _endpoint_mode(top, findings)


def _require_both_secrets(top: Section, given: list[str], findings: Findings) -> None:
    for key in ENDPOINT_MODE_KEYS:
        if key not in given:
            message = f"is required beside {given[0]}: endpoint mode compares two paths"
            findings.mistake(top.place(key), message)


def _refuse_mixed_modes(top: Section, given: list[str], findings: Findings) -> None:
    message = f"selects lease mode, but {given[0]} selects endpoint mode; use only one"
    findings.mistake(top.place(LEASE_MODE_KEY), message)
    top.value(LEASE_MODE_KEY, object_name, "")  # for its own mistakes: all are reported at once
    for key in given:
        message = f"selects endpoint mode, but {LEASE_MODE_KEY} selects lease mode; use only one"
        findings.mistake(top.place(key), message)


def _lease_mode(top: Section, findings: Findings) -> ModeDefaults:
    top.value(BACKOFF_KEY, duration(zero=True), 0.0)
    _warn_ignored_key(top, BACKOFF_KEY, "endpoint mode", findings)
    return ModeDefaults(top.required(LEASE_MODE_KEY, object_name) or "", None)


def _endpoint_mode(top: Section, findings: Findings) -> ModeDefaults:
    internal, external = (top.value(key, object_name, "") for key in ENDPOINT_MODE_KEYS)
    if internal and internal == external:
        message = (
            "should differ from the internal path's Secret: with one path no outage can be detected"
        )
        findings.warn(top.place(ENDPOINT_MODE_KEYS[1]), message)
    _warn_ignored_key(top, LIMIT_KEY, "lease mode", findings)
    backoff = top.value(BACKOFF_KEY, duration(zero=True), _ENDPOINT_MODE.internal_failure_backoff)
    return ModeDefaults(
        internal, EndpointMode(external, backoff), failure_threshold=3, success_threshold=1
    )


def _warn_ignored_key(top: Section, key: str, mode: str, findings: Findings) -> None:
    if top.node(key) is not None:
        findings.warn(top.place(key), f"has an effect in {mode} only; remove it")


__all__ = [
    "DEPENDENT_KEYS",
    "ENDPOINT_MODE_KEYS",
    "PROBER_KEYS",
    "REF_KEYS",
    "SCALE_KEYS",
    "read_policy",
]

PROBER_KEYS: Final = Keys(
    known=(
        LEASE_MODE_KEY,
        *ENDPOINT_MODE_KEYS,
        "probeInterval",
        "initialDelay",
        "probeTimeout",
        "backoffJitterFactor",
        "kcmNodeMonitorGraceDuration",
        LIMIT_KEY,
        "failureThreshold",
        "successThreshold",
        "suspectProbeInterval",
        "maxProtectionDuration",
        BACKOFF_KEY,
        "onScaleDownFailure",
        "onScaleUpFailure",
        PROBES_KEY,
        "dependentResourceInfos",
    ),
    obsolete=("name", "namespace"),
)
DEPENDENT_KEYS: Final = Keys(known=("ref", "optional", "shouldExist", "scaleUp", "scaleDown"))
REF_KEYS: Final = Keys(known=("kind", "name", "apiVersion"))
SCALE_KEYS: Final = Keys(known=("level", "initialDelay", "timeout"), obsolete=("replicas",))

_DEFAULT: Final = ProberPolicy(kubeconfig_secret="", dependents=())
_DEFAULT_SCALE: Final = ScalePolicy()
_NO_REF: Final = ResourceRef("", "", "")


def read_policy(root: yaml.Node | None, findings: Findings, *, allow_exec: bool) -> ProberPolicy:
    """Parses the policy in `root`; adds warnings to `findings`.

    Raises:
        ConfigurationError: the file has mistakes; the error lists all of them.
    """
    top = top_section(root, PROBER_KEYS, "prober", findings)
    policy = _policy(top, findings)
    probes = read_endpoint_probes(top, ProbeListContext(allow_exec, policy), findings)
    findings.check()
    if advice := late_scale_down(policy):
        late = known_after(policy) >= policy.grace
        findings.warn(top.place("failureThreshold" if late else "dependentResourceInfos"), advice)
    return replace(policy, endpoint_probes=probes)


def _policy(top: Section, findings: Findings) -> ProberPolicy:
    mode = read_mode(top, findings)
    interval = top.value("probeInterval", duration(zero=False), _DEFAULT.probe_interval)
    up_failure = top.value("onScaleUpFailure", on_failure, _DEFAULT.on_scale_up_failure)
    down_failure = top.value("onScaleDownFailure", on_failure, _DEFAULT.on_scale_down_failure)
    return ProberPolicy(
        kubeconfig_secret=mode.kubeconfig_secret,
        endpoint_mode=mode.endpoint,
        probe_interval=interval,
        initial_delay=top.value("initialDelay", duration(zero=True), _DEFAULT.initial_delay),
        probe_timeout=top.value("probeTimeout", duration(zero=False), _DEFAULT.probe_timeout),
        jitter=top.value("backoffJitterFactor", fraction(zero=True), _DEFAULT.jitter),
        grace=top.value("kcmNodeMonitorGraceDuration", duration(zero=False), _DEFAULT.grace),
        limit=top.value(LIMIT_KEY, fraction(zero=False), _DEFAULT.limit),
        failure_threshold=top.value("failureThreshold", whole(1), mode.failure_threshold),
        success_threshold=top.value("successThreshold", whole(1), mode.success_threshold),
        suspect_interval=_suspect_interval(top, interval, findings),
        max_protection=_max_protection(top, findings),
        on_scale_down_failure=down_failure,
        on_scale_up_failure=up_failure,
        dependents=_dependents(top, findings),
    )


def _suspect_interval(top: Section, probe_interval: float, findings: Findings) -> float:
    default = min(_DEFAULT.suspect_interval, probe_interval)
    found = top.value("suspectProbeInterval", duration(zero=False), default)
    if found > probe_interval:
        most = format_duration(probe_interval)
        message = f"must be at most probeInterval ({most}), not {format_duration(found)}"
        findings.mistake(top.place("suspectProbeInterval"), message)
    return found


def _max_protection(top: Section, findings: Findings) -> float | None:
    found = top.value("maxProtectionDuration", duration(zero=False), None)
    if found is not None and found > LONGEST:
        message = f"must be at most {format_duration(LONGEST)}, not {format_duration(found)}"
        findings.mistake(top.place("maxProtectionDuration"), message)
    return found


def _dependents(top: Section, findings: Findings) -> tuple[DependentPolicy, ...]:
    seen: dict[tuple[str, str, str], str] = {}
    dependents = []
    for section in top.sections("dependentResourceInfos", DEPENDENT_KEYS):
        dependent = _dependent(section, findings)
        dependents.append(dependent)
        if dependent.ref != _NO_REF:
            place = section.place("ref")
            first = seen.setdefault(_identity(dependent.ref), place.path)
            if first != place.path:
                findings.mistake(place, f"{dependent.ref} is named twice, first in {first}")
    return tuple(dependents)


def _identity(ref: ResourceRef) -> tuple[str, str, str]:
    # Without the version: all versions of a group serve the same objects.
    group = ref.api_version.rpartition("/")[0]
    return (group, ref.kind, ref.name)


def _dependent(section: Section, findings: Findings) -> DependentPolicy:
    return DependentPolicy(
        ref=_ref(section.section("ref", REF_KEYS)),
        optional=_optional(section, findings),
        scale_up=_scale(section.section("scaleUp", SCALE_KEYS)),
        scale_down=_scale(section.section("scaleDown", SCALE_KEYS)),
    )


def _optional(section: Section, findings: Findings) -> bool:
    optional = section.value("optional", boolean, default=False)
    if section.node("shouldExist") is None:
        return optional
    if section.node("optional") is not None:
        message = "is the inverse of optional: only one of the two may be given"
        findings.mistake(section.place("shouldExist"), message)
    return not section.value("shouldExist", boolean, default=True)


def _ref(section: Section | None) -> ResourceRef:
    """Returns the ref; `_NO_REF` if it is wrong, which is recorded as a mistake and makes the file unusable."""
    if section is None:
        return _NO_REF
    version = section.required("apiVersion", api_version)
    resource = section.required("kind", resource_kind)
    name = section.required("name", object_name)
    return ResourceRef(version, resource, name) if version and resource and name else _NO_REF


def _scale(section: Section | None) -> ScalePolicy:
    if section is None:
        return _DEFAULT_SCALE
    return ScalePolicy(
        level=section.value("level", whole(0), _DEFAULT_SCALE.level),
        initial_delay=section.value(
            "initialDelay", duration(zero=True), _DEFAULT_SCALE.initial_delay
        ),
        timeout=section.value("timeout", duration(zero=False), _DEFAULT_SCALE.timeout),
    )
