"""Parses the weeder file: its keys, types, defaults and limits; YAML nodes in, `WeederPolicy` out.

The defaults are those of `WeederPolicy`; docs/configuration.md has them as a table.
"""

from types import MappingProxyType
from typing import Final

import yaml

from app.core.config.advice import long_minimum, useless_selector
from app.core.config.fields import (
    SELECTOR_KEYS,
    Findings,
    Keys,
    Naming,
    Section,
    entries,
    mapping,
    read_selector,
    top_section,
)
from app.core.config.scalars import boolean, duration, service_name, whole
from app.core.config.yaml_nodes import is_merge
from app.core.model.selectors import LabelSelector, Requirement
from app.core.model.weeding import WeederPolicy

WEEDER_KEYS: Final = Keys(
    known=(
        "watchDuration",
        "servicesAndDependantSelectors",
        "maxDeletionsPerWorkload",
        "minBackoffRemaining",
        "weedBarePods",
    ),
    obsolete=("name", "namespace"),
)
SERVICE_KEYS: Final = Keys(known=("podSelectors",))

_DEFAULT: Final = WeederPolicy()


def read_weeder_policy(root: yaml.Node | None, findings: Findings) -> WeederPolicy:
    """Parses the policy in `root`; adds warnings to `findings`.

    Raises:
        ConfigurationError: the file has mistakes; the error lists all of them.
    """
    top = top_section(root, WEEDER_KEYS, "weeder", findings)
    policy = _policy(top, findings)
    findings.check()
    if advice := long_minimum(policy.min_backoff_remaining):
        findings.warn(top.place("minBackoffRemaining"), advice)
    return policy


def _policy(top: Section, findings: Findings) -> WeederPolicy:
    remaining = top.value(
        "minBackoffRemaining", duration(zero=True), _DEFAULT.min_backoff_remaining
    )
    most = top.value("maxDeletionsPerWorkload", whole(1), _DEFAULT.max_deletions_per_workload)
    return WeederPolicy(
        services=MappingProxyType(_services(top, findings)),
        watch_duration=top.value("watchDuration", duration(zero=False), _DEFAULT.watch_duration),
        max_deletions_per_workload=most,
        min_backoff_remaining=remaining,
        weed_bare_pods=top.value("weedBarePods", boolean, _DEFAULT.weed_bare_pods),
    )


def _services(top: Section, findings: Findings) -> dict[str, tuple[LabelSelector, ...]]:
    place = top.place("servicesAndDependantSelectors")
    node = top.required("servicesAndDependantSelectors", mapping)
    if node is None:
        return {}
    found = entries(node, Naming.of_data(place), findings)
    if not found and all(is_merge(key) for key, _ in node.value):
        findings.mistake(place, "must not be empty")
    services = {}
    for name, entry in found.items():
        findings.attempt(entry.place, service_name, name)
        selectors = findings.attempt(entry.place, mapping, entry.node)
        if selectors is not None:
            section = Section(selectors, entry.place, SERVICE_KEYS, findings)
            services[name] = _selectors(section, findings)
    return services


def _selectors(service: Section, findings: Findings) -> tuple[LabelSelector, ...]:
    seen: dict[frozenset[Requirement], str] = {}
    selectors = []
    for index, section in enumerate(service.sections("podSelectors", SELECTOR_KEYS)):
        selector = read_selector(section, findings)
        selectors.append(selector)
        first = seen.setdefault(frozenset(selector.requirements), f"podSelectors[{index}]")
        if first != f"podSelectors[{index}]":
            findings.warn(section.base, f"is the same as {first}; remove one of them")
        if advice := useless_selector(selector):
            findings.warn(section.base, advice)
    return tuple(selectors)
