"""What the prober and the weeder file mean beyond each key by itself: modes, keys that exclude each other, warnings.

The keys, with types, limits and defaults, are those of `ProberPolicy` and `WeederPolicy`. What is wrong between keys is
asked of the plain values of the file, valid or not, so that it is reported together with what is wrong in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from app.core.config.values import FileKind
from app.core.config.yaml_file import (
    Path_,
    Values,
    YamlFile,
    compose,
    compose_mapping,
    mappings,
    read_text,
    refused,
)
from app.core.errors import ConfigWarning, trimmed
from app.core.model.endpoints import Effect, EndpointProbeSpec, ProbeType
from app.core.model.instants import format_duration
from app.core.model.names import LabelSelector, Operator, Requirement, is_port_name
from app.core.model.policy import ATTEMPT, EXPIRY, DependentPolicy, ProberPolicy
from app.core.model.weeding import LONGEST_BACKOFF, WeederPolicy

P = TypeVar("P", ProberPolicy, WeederPolicy)

_KINDS: Final = {ProberPolicy: FileKind.PROBER, WeederPolicy: FileKind.WEEDER}
_WEEDER_SIGNS: Final = ("watchDuration", "servicesAndDependantSelectors")
LEASE_MODE: Final = "kubeConfigSecretName"
ENDPOINT_MODE: Final = ("internalKubeConfigSecretName", "externalKubeConfigSecretName")
"""Endpoint mode is chosen by giving both."""
BACKOFF: Final = "internalProbeFailureBackoffDuration"
IN_ENDPOINT_MODE: Final = {"failureThreshold": 3, "successThreshold": 1}
"""The defaults that are others there."""
HANDLERS: Final = ("httpGet", "tcpSocket", "grpc", "exec")
"""The keys of the handlers; an endpoint probe has exactly one of them."""
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Loaded(Generic[P]):
    """A valid file."""

    policy: P
    warnings: tuple[ConfigWarning, ...] = ()


def read_prober_file(path: Path, *, strict: bool, allow_exec: bool = False) -> Loaded[ProberPolicy]:
    """Reads the prober file at `path`.

    Args:
        path: Where it is.
        strict: Whether unknown keys are mistakes instead of warnings.
        allow_exec: Whether it may have exec probes (`--allow-exec`).

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    return parse_prober(read_text(path), str(path), strict=strict, allow_exec=allow_exec)


def parse_prober(
    text: str, source: str, *, strict: bool, allow_exec: bool = False
) -> Loaded[ProberPolicy]:
    """The same for a text; `source` is what errors call it.

    Raises:
        ConfigurationError: anything in it is wrong; it has all mistakes.
    """
    file = _opened(text, source, ProberPolicy, strict=strict)
    _check_mode(file)
    _check_dependents(file)
    _check_endpoint_probes(file, allow_exec=allow_exec)
    policy = _normalized(file.load(), file.values)
    _warn_of_prober(file, policy)
    return Loaded(policy, file.warnings())


def read_weeder_file(path: Path, *, strict: bool) -> Loaded[WeederPolicy]:
    """Reads the weeder file at `path`; `strict` makes unknown keys mistakes instead of warnings.

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    return parse_weeder(read_text(path), str(path), strict=strict)


def parse_weeder(text: str, source: str, *, strict: bool) -> Loaded[WeederPolicy]:
    """The same for a text; `source` is what errors call it.

    Raises:
        ConfigurationError: anything in it is wrong; it has all mistakes.
    """
    file = _opened(text, source, WeederPolicy, strict=strict)
    policy = file.load()
    if advice := long_minimum(policy.min_backoff_remaining):
        file.warn(("minBackoffRemaining",), advice)
    for service, selectors in policy.services.items():
        above = ("servicesAndDependantSelectors", service, "podSelectors")
        placed = [((*above, index), selector) for index, selector in enumerate(selectors)]
        same = ((frozenset(selector.requirements), path) for path, selector in placed)
        for _, path, first in file.repeated(same):
            file.warn(path, f"is the same as podSelectors[{first[-1]}]; remove one of them")
        for path, selector in placed:
            if advice := useless_selector(selector):
                file.warn(path, advice)
    return Loaded(policy, file.warnings())


def file_kind(text: str, source: str) -> FileKind:
    """Returns which file `text` is: a weeder file if it has keys of one, otherwise a prober file.

    Raises:
        ConfigurationError: it is not a single YAML document.
    """
    root = compose(text, source)
    given = None if root is None else YamlFile(root, WeederPolicy, source, strict=False).values
    has_sign = isinstance(given, dict) and any(key in given for key in _WEEDER_SIGNS)
    return FileKind.WEEDER if has_sign else FileKind.PROBER


def _opened(text: str, source: str, form: type[P], *, strict: bool) -> YamlFile[P]:
    """Parses the document; refuses a file of the other kind, whose mistakes would be a long list."""
    wanted = _KINDS[form]
    root = compose_mapping(text, source, wanted)
    file = YamlFile(root, form, source, strict=strict)
    if file.values:
        return file
    for its_form, other in _KINDS.items():
        if strange := YamlFile[Any](root, its_form, source, strict=False).values:
            message = f"is a {other} file (it has {next(iter(strange))}), not a {wanted} file"
            raise refused(source, message, file.place(()).line)
    return file


# Lease mode or endpoint mode: the names of the Secrets choose it.


def _check_mode(file: YamlFile[ProberPolicy]) -> None:
    """Checks which mode is chosen, and that it is one; warns of keys that have no effect in it."""
    given = [key for key in ENDPOINT_MODE if key in file.values]
    if given and LEASE_MODE in file.values:
        message = f"selects lease mode, but {given[0]} selects endpoint mode; use only one"
        file.mistake((LEASE_MODE,), message)
        for key in given:
            message = f"selects endpoint mode, but {LEASE_MODE} selects lease mode; use only one"
            file.mistake((key,), message)
    elif given:
        for key in {*ENDPOINT_MODE} - {*given}:
            message = f"is required beside {given[0]}: endpoint mode compares two paths"
            file.mistake((key,), message)
    if len(given) == len(ENDPOINT_MODE):
        file.values = IN_ENDPOINT_MODE | file.values
    elif not given and LEASE_MODE not in file.values:
        file.mistake((LEASE_MODE,), "is required")
    internal, external = (file.values.get(key) for key in ENDPOINT_MODE)
    if internal and internal == external:
        message = (
            "should differ from the internal path's Secret: with one path no outage can be detected"
        )
        file.warn((ENDPOINT_MODE[1],), message)
    idle, other = ("nodeLeaseFailureFraction", "lease") if given else (BACKOFF, "endpoint")
    if idle in file.values:
        file.warn((idle,), f"has an effect in {other} mode only; remove it")


def _normalized(policy: ProberPolicy, values: Values) -> ProberPolicy:
    """Returns a policy with the defaults that depend on other keys, and without other spellings."""
    interval = policy.suspect_interval
    if "suspectProbeInterval" not in values:
        interval = min(interval, policy.probe_interval)
    return replace(
        policy,
        suspect_interval=interval,
        dependents=tuple(map(_dependent, policy.dependents)),
        endpoint_probes=tuple(map(_probe, policy.endpoint_probes)),
    )


# Dependents.


def _check_dependents(file: YamlFile[ProberPolicy]) -> None:
    refs: list[tuple[tuple[str, str, str], Path_]] = []
    for index, dependent in mappings(file.values.get("dependentResourceInfos")):
        path = ("dependentResourceInfos", index)
        if {"optional", "shouldExist"} <= {*dependent}:
            message = "is the inverse of optional: only one of the two may be given"
            file.mistake((*path, "shouldExist"), message)
        ref = _inner(dependent, "ref")
        version, kind, name = (ref.get(key) for key in ("apiVersion", "kind", "name"))
        if isinstance(version, str) and isinstance(kind, str) and isinstance(name, str):
            # Without the version: all versions of a group serve the same objects.
            refs.append(((version.rpartition("/")[0], kind, name), (*path, "ref")))
    for (_, kind, name), again, first in file.repeated(refs):
        file.mistake(again, f"{kind}/{name} is named twice, first in {file.place(first).path}")


def _dependent(policy: DependentPolicy) -> DependentPolicy:
    if policy.should_exist is None:
        return policy
    return replace(policy, optional=not policy.should_exist, should_exist=None)


# Endpoint probes.


def _check_endpoint_probes(file: YamlFile[ProberPolicy], *, allow_exec: bool) -> None:
    """Checks that an endpoint probe has one handler and one target, only what goes with them, and its own name."""
    names: list[tuple[str, Path_]] = []
    for index, probe in mappings(file.values.get("endpointProbes")):
        path = ("endpointProbes", index)
        of_a_host = "podSelector" not in probe
        for wrong, keys, message in (
            *_rules_of_target(probe, allow_exec=allow_exec),
            *(_rules_of_a_host(probe) if of_a_host else ()),
            *_rules_of_type(probe),
        ):
            if wrong:
                file.mistake((*path, *keys), message)
        if isinstance(name := probe.get("name"), str) and name:
            names.append((name, (*path, "name")))
    for name, again, first in file.repeated(names):
        file.mistake(again, f"{name} is named twice, first in {file.place(first).path}")


Rules = Iterator[tuple[object, tuple[str, ...], str]]
"""Whether something is wrong with an endpoint probe, at which of its keys, and what."""


def _rules_of_target(probe: Values, *, allow_exec: bool) -> Rules:
    handlers = [key for key in HANDLERS if key in probe]
    yield not handlers, (), f"needs one of {', '.join(HANDLERS)}"
    for key in handlers[1:]:
        yield True, (key,), f"is a second handler beside {handlers[0]}: only one may be given"
    yield "exec" in probe and not allow_exec, ("exec",), "needs the flag --allow-exec"
    places = [(), *((key,) for key in handlers[:1])]
    hosts = [(*inside, "host") for inside in places if "host" in _inner(probe, *inside)]
    if len(hosts) > 1:
        yield True, hosts[1], "is another spelling of host: only one of the two may be given"
    if hosts and "podSelector" in probe:
        yield True, hosts[-1], "excludes podSelector: only one of the two may be given"
    yield not hosts and "podSelector" not in probe, (), "needs host or podSelector"


def _rules_of_a_host(probe: Values) -> Rules:
    """Refuses what only applies to containers."""
    type_ = probe.get("type")
    about_a_container = type_ in (ProbeType.STARTUP, ProbeType.LIVENESS)
    message = f"needs podSelector where it is {type_}: that is about a container"
    yield about_a_container, ("type",), message
    yield "exec" in probe, ("exec",), "needs podSelector: it runs inside a container"
    for key in ("httpGet", "tcpSocket"):
        port = _inner(probe, key).get("port")
        message = "must be a number where there is no podSelector: only containers name their ports"
        yield isinstance(port, str) and is_port_name(port), (key, "port"), message
    yield "container" in probe, ("container",), "needs podSelector, whose containers it narrows"


def _rules_of_type(probe: Values) -> Rules:
    type_, successes = probe.get("type"), probe.get("successThreshold", 1)
    if type_ in (ProbeType.STARTUP, ProbeType.LIVENESS):
        several = isinstance(successes, int) and successes > 1
        yield several, ("successThreshold",), f"must be 1 where type is {type_}, not {successes}"
        gate = Effect.GATE_SCALE_DOWN
        message = f"can be {gate} only where type is {ProbeType.READINESS}, not {type_}"
        yield probe.get("effect") == gate, ("effect",), message


def _inner(values: Values, *keys: str) -> Values:
    for key in keys:
        found = values.get(key)
        values = found if isinstance(found, dict) else {}
    return values


def _probe(policy: EndpointProbeSpec) -> EndpointProbeSpec:
    http, tcp = policy.http_get, policy.tcp_socket
    if http is not None and http.host is not None:
        return replace(policy, host=http.host, http_get=replace(http, host=None))
    if tcp is not None and tcp.host is not None:
        return replace(policy, host=tcp.host, tcp_socket=replace(tcp, host=None))
    return policy


def _warn_of_prober(file: YamlFile[ProberPolicy], policy: ProberPolicy) -> None:
    for index, probe in enumerate(policy.endpoint_probes):
        if advice := slow_gate(probe, policy):
            file.warn(("endpointProbes", index, "effect"), advice)
        if probe.pods is not None and (advice := useless_selector(probe.pods)):
            file.warn(("endpointProbes", index, "podSelector"), advice)
    if advice := late_scale_down(policy):
        late = known_after(policy) >= policy.grace
        file.warn(("failureThreshold" if late else "dependentResourceInfos",), advice)


# Warnings about valid configurations that would not protect in time, or that have no effect (rules 1).


def late_scale_down(policy: ProberPolicy) -> str | None:
    """Explains why protection would come after nodes were marked NotReady; returns None if it comes in time.

    Only the grace period of the file is considered; a Shoot may set its own.
    """
    known = known_after(policy)
    late = [
        f"{each.ref} after {format_duration(wait)}"
        for each, wait in _first_writes(policy.dependents)
        if known + wait >= policy.grace
    ]
    if not late:
        return None
    marked = f"nodes are marked NotReady after {format_duration(policy.grace)}"
    if known >= policy.grace:
        return f"{_how_known(policy)}, but {marked}: protection would come too late"
    return (
        f"{_how_known(policy)} and {marked}, but the scaleDown delays let these wait too long: "
        + ", ".join(late)
    )


def known_after(policy: ProberPolicy) -> float:
    """Returns the minimum number of seconds from an outage to its verdict (in endpoint mode: the maximum)."""
    if not policy.endpoint_mode:
        return EXPIRY * policy.grace
    attempts = policy.failure_threshold
    return attempts * _attempt(policy) + (attempts - 1) * policy.suspect_interval


def _how_known(policy: ProberPolicy) -> str:
    after = format_duration(known_after(policy))
    if not policy.endpoint_mode:
        return f"leases expire after {after}"
    attempt, pause = format_duration(_attempt(policy)), format_duration(policy.suspect_interval)
    pauses = f", {pause} apart" if policy.failure_threshold > 1 else ""
    return f"failureThreshold is reached after {after} ({policy.failure_threshold} × {attempt}{pauses})"


def _attempt(policy: ProberPolicy) -> float:
    # A path that drops packets costs the full timeout.
    return min(ATTEMPT, policy.probe_timeout)


def _first_writes(
    dependents: tuple[DependentPolicy, ...],
) -> Iterator[tuple[DependentPolicy, float]]:
    """Yields each dependent with the seconds from the verdict to its write, if every write succeeds at once."""
    start = 0.0
    for level in sorted({each.scale_down.level for each in dependents}):
        members = [each for each in dependents if each.scale_down.level == level]
        yield from ((each, start + each.scale_down.initial_delay) for each in members)
        start += max(each.scale_down.initial_delay for each in members)


def slow_gate(probe: EndpointProbeSpec, policy: ProberPolicy) -> str | None:
    """Explains why a gate may close only after a scale-down began; returns None if it is in time, or is no gate.

    In endpoint mode the time is often shorter than half the grace period: where connections are refused, each probe
    fails at once, and the verdict comes as soon as `failureThreshold` probes have been sent.
    """
    closed = probe.failure_threshold * probe.period + probe.timeout
    if not probe.gates:
        return None
    text = (
        f"the gate may close only after {format_duration(closed)} (failureThreshold × periodSeconds + "
        "timeoutSeconds), which is "
    )
    if closed >= policy.grace / 2:
        grace = format_duration(policy.grace)
        return f"{text}not within half the grace of {grace}: a scale-down may come first"
    verdict = (policy.failure_threshold - 1) * policy.suspect_interval
    if policy.endpoint_mode and closed > verdict:
        after = format_duration(verdict)
        when = f"later than the verdict may come, {after} after the first probe that failed"
        return f"{text}{when}: a scale-down may come first"
    return None


def useless_selector(selector: LabelSelector) -> str | None:
    """Explains why a selector cannot be intended: it matches every pod, or none; returns None if it is plausible."""
    if not selector.requirements:
        return "has no requirements, so that it matches every pod of the namespace"
    by_key: dict[str, list[Requirement]] = {}
    for each in selector.requirements:
        by_key.setdefault(each.key, []).append(each)
    for own in by_key.values():
        if _contradicts_itself(own):
            shown = trimmed("; ".join(map(str, own)), _SHOWN)
            return f"can match no pod, as its requirements contradict each other: {shown}"
    return None


def _contradicts_itself(requirements: list[Requirement]) -> bool:
    """Returns whether neither any value of a label nor its absence fulfils all the requirements on it."""
    allowed = [set(each.values) for each in requirements if each.operator is Operator.IN]
    operators = {each.operator for each in requirements}
    if Operator.DOES_NOT_EXIST in operators:
        return not operators.isdisjoint({Operator.IN, Operator.EXISTS})
    denied = [each.values for each in requirements if each.operator is Operator.NOT_IN]
    return bool(allowed) and not set.intersection(*allowed).difference(*denied)


def long_minimum(min_backoff_remaining: float) -> str | None:
    """Explains why no pod with a known back-off would ever be deleted; returns None if some would.

    Args:
        min_backoff_remaining: `minBackoffRemaining`, in seconds.
    """
    if min_backoff_remaining < LONGEST_BACKOFF:
        return None
    longest, given = format_duration(LONGEST_BACKOFF), format_duration(min_backoff_remaining)
    return f"no back-off is longer than {longest}: no known one exceeds {given}"
