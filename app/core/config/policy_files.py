"""What the prober and the weeder file mean beyond each key by itself: modes, keys that exclude each other, warnings.

The keys, with types, limits and defaults, are those of `ProberPolicy` and `WeederPolicy`. What is wrong between keys is
asked of the plain values of the file, valid or not, so that it is reported together with what is wrong in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import yaml

from app.core.config.advice import (
    known_after,
    late_scale_down,
    long_minimum,
    slow_gate,
    useless_selector,
)
from app.core.config.values import FileKind
from app.core.config.yaml_file import (
    NodeKind,
    YamlFile,
    compose,
    kind,
    line_of,
    read_text,
)
from app.core.errors import ConfigurationError, Mistake
from app.core.model.durations import format_duration, parse_duration
from app.core.model.endpoints import Effect, EndpointProbeSpec, ProbeType
from app.core.model.names import is_port_name
from app.core.model.policy import ConfigWarning, DependentPolicy, ProberPolicy
from app.core.model.weeding import WeederPolicy

P = TypeVar("P", ProberPolicy, WeederPolicy)
Values = dict[str, Any]
"""The plain values of a mapping."""

_FORMS: Final = {FileKind.PROBER: ProberPolicy, FileKind.WEEDER: WeederPolicy}
_WEEDER_SIGNS: Final = ("watchDuration", "servicesAndDependantSelectors")
LEASE_MODE: Final = "kubeConfigSecretName"
ENDPOINT_MODE: Final = ("internalKubeConfigSecretName", "externalKubeConfigSecretName")
"""Endpoint mode is chosen by giving both."""
BACKOFF: Final = "internalProbeFailureBackoffDuration"
IN_ENDPOINT_MODE: Final = {"failureThreshold": 3, "successThreshold": 1}
"""The defaults that are others there."""
HANDLERS: Final = ("httpGet", "tcpSocket", "grpc", "exec")
"""The keys of the handlers; an endpoint probe has exactly one of them."""


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
    file = YamlFile[ProberPolicy](
        _root(text, source, FileKind.PROBER), ProberPolicy, source, strict=strict
    )
    _check_mode(file)
    _check_suspect_interval(file)
    _check_dependents(file)
    for index, probe in _sections(file.values, "endpointProbes"):
        _check_probe(file, ("endpointProbes", index), probe, allow_exec=allow_exec)
    _check_names_of_probes(file)
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
    file = YamlFile[WeederPolicy](
        _root(text, source, FileKind.WEEDER), WeederPolicy, source, strict=strict
    )
    policy = file.load()
    if advice := long_minimum(policy.min_backoff_remaining):
        file.warn(("minBackoffRemaining",), advice)
    for service, selectors in policy.services.items():
        seen: dict[frozenset[object], int] = {}
        for index, selector in enumerate(selectors):
            path = ("servicesAndDependantSelectors", service, "podSelectors", index)
            first = seen.setdefault(frozenset(selector.requirements), index)
            if first != index:
                file.warn(path, f"is the same as podSelectors[{first}]; remove one of them")
            if advice := useless_selector(selector):
                file.warn(path, advice)
    return Loaded(policy, file.warnings())


def file_kind(text: str, source: str) -> FileKind:
    """Returns which file `text` is: a weeder file if it has keys of one, otherwise a prober file.

    Raises:
        ConfigurationError: it is not a single YAML document.
    """
    given = _given(compose(text, source), FileKind.WEEDER)
    return FileKind.WEEDER if {*_WEEDER_SIGNS} & {*given} else FileKind.PROBER


def _root(text: str, source: str, wanted: FileKind) -> yaml.Node:
    """Parses the document; refuses a file of the other kind, whose mistakes would be a long list."""
    root = compose(text, source)
    line = None if root is None else line_of(root)
    if root is None or kind(root) is not NodeKind.MAPPING:
        found = "nothing" if root is None else kind(root)
        message = f"must be a mapping with the {wanted}'s keys, and holds {found}"
        raise ConfigurationError(source, [Mistake(line, "", message)])
    (other,) = set(FileKind) - {wanted}
    strange = _given(root, other)
    if strange and not _given(root, wanted):
        message = f"is a {other} file (it has {strange[0]}), not a {wanted} file"
        raise ConfigurationError(source, [Mistake(line, "", message)])
    return root


def _given(root: yaml.Node | None, wanted: FileKind) -> list[str]:
    """Returns which of the keys a file has, apart from obsolete ones."""
    if root is None or kind(root) is not NodeKind.MAPPING:
        return []
    return list(YamlFile[Any](root, _FORMS[wanted], "", strict=False).values)


def _sections(values: Values, key: str) -> Iterator[tuple[int, Values]]:
    """Yields the mappings in the list of `key`, each with its index."""
    found = values.get(key)
    for index, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, dict):
            yield index, each


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
    backoff = (policy if policy.endpoint_mode else ProberPolicy()).internal_failure_backoff
    if "suspectProbeInterval" not in values:
        interval = min(interval, policy.probe_interval)
    return replace(
        policy,
        suspect_interval=interval,
        internal_failure_backoff=backoff,
        dependents=tuple(map(_dependent, policy.dependents)),
        endpoint_probes=tuple(map(_probe, policy.endpoint_probes)),
    )


def _seconds(value: object) -> float | None:
    try:
        return parse_duration(str(value))
    except ValueError:
        return None  # which is a mistake already


def _check_suspect_interval(file: YamlFile[ProberPolicy]) -> None:
    found = _seconds(file.values.get("suspectProbeInterval"))
    most = _seconds(file.values.get("probeInterval", "10s"))
    if found is not None and most is not None and found > most > 0:
        message = (
            f"must be at most probeInterval ({format_duration(most)}), not {format_duration(found)}"
        )
        file.mistake(("suspectProbeInterval",), message)


# Dependents.


def _check_dependents(file: YamlFile[ProberPolicy]) -> None:
    seen: dict[tuple[object, ...], str] = {}
    for index, dependent in _sections(file.values, "dependentResourceInfos"):
        path = ("dependentResourceInfos", index)
        if {"optional", "shouldExist"} <= {*dependent}:
            message = "is the inverse of optional: only one of the two may be given"
            file.mistake((*path, "shouldExist"), message)
        ref = _inner(dependent, "ref")
        # Without the version: all versions of a group serve the same objects.
        group = str(ref.get("apiVersion")).rpartition("/")[0]
        identity = (group, *(ref.get(key) for key in ("kind", "name")))
        place = file.place((*path, "ref")).path
        if {"apiVersion", "kind", "name"} <= {*ref} and all(isinstance(it, str) for it in identity):
            first = seen.setdefault(identity, place)
            if first != place:
                twice = f"{ref['kind']}/{ref['name']} is named twice, first in {first}"
                file.mistake((*path, "ref"), twice)


def _dependent(policy: DependentPolicy) -> DependentPolicy:
    if policy.should_exist is None:
        return policy
    return replace(policy, optional=not policy.should_exist, should_exist=None)


# Endpoint probes.


def _check_names_of_probes(file: YamlFile[ProberPolicy]) -> None:
    first: dict[str, str] = {}
    for index, probe in _sections(file.values, "endpointProbes"):
        path, name = ("endpointProbes", index, "name"), probe.get("name")
        if isinstance(name, str) and name:
            place = file.place(path).path
            taken = first.setdefault(name, place)
            if taken != place:
                file.mistake(path, f"{name} is named twice, first in {taken}")


def _check_probe(
    file: YamlFile[ProberPolicy], path: tuple[str | int, ...], probe: Values, *, allow_exec: bool
) -> None:
    """Checks that an endpoint probe has one handler and one target, and only what goes with them."""
    handlers = [key for key in HANDLERS if key in probe]
    if not handlers:
        file.mistake(path, f"needs one of {', '.join(HANDLERS)}")
    for key in handlers[1:]:
        message = f"is a second handler beside {handlers[0]}: only one may be given"
        file.mistake((*path, key), message)
    if "exec" in probe and not allow_exec:
        file.mistake((*path, "exec"), "needs the flag --allow-exec")
    hosts = [
        (*path, *inside, "host")
        for inside in ((), *((key,) for key in handlers[:1]))
        if "host" in (_inner(probe, *inside))
    ]
    if len(hosts) > 1:
        file.mistake(hosts[1], "is another spelling of host: only one of the two may be given")
    if hosts and "podSelector" in probe:
        file.mistake(hosts[-1], "excludes podSelector: only one of the two may be given")
    if not hosts and "podSelector" not in probe:
        file.mistake(path, "needs host or podSelector")
    type_ = probe.get("type", ProbeType.READINESS)
    if "podSelector" not in probe:
        _check_host_target(file, path, probe, type_)
    if type_ in (ProbeType.STARTUP, ProbeType.LIVENESS):
        successes = probe.get("successThreshold", 1)
        if isinstance(successes, int) and successes > 1:
            message = f"must be 1 where type is {type_}, not {successes}"
            file.mistake((*path, "successThreshold"), message)
        if probe.get("effect") == Effect.GATE_SCALE_DOWN:
            message = f"can be {Effect.GATE_SCALE_DOWN} only where type is {ProbeType.READINESS}, not {type_}"
            file.mistake((*path, "effect"), message)


def _check_host_target(
    file: YamlFile[ProberPolicy], path: tuple[str | int, ...], probe: Values, type_: object
) -> None:
    """Refuses what only applies to containers."""
    if type_ in (ProbeType.STARTUP, ProbeType.LIVENESS):
        message = f"needs podSelector where it is {type_}: that is about a container"
        file.mistake((*path, "type"), message)
    if "exec" in probe:
        file.mistake((*path, "exec"), "needs podSelector: it runs inside a container")
    for key in ("httpGet", "tcpSocket"):
        if isinstance(port := _inner(probe, key).get("port"), str) and is_port_name(port):
            message = (
                "must be a number where there is no podSelector: only containers name their ports"
            )
            file.mistake((*path, key, "port"), message)
    if "container" in probe:
        file.mistake((*path, "container"), "needs podSelector, whose containers it narrows")


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
