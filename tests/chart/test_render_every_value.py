"""No value is ignored: whatever is said is found again in what is rendered, or changes it."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.rendering import Json, Renderer
from tests.chart.tools import Failed
from tests.chart.valuesfiles import at, defaults, over_defaults

pytestmark = pytest.mark.real

ELSEWHERE: Final = ("alerts", "dashboards", "prober.config", "weeder.config")
"""What has tests of its own: tests/chart/alerts, tests/chart/dashboards, and those of the program's files."""
ISSUER: Final[Json] = {"certManager": {"issuerRef": {"name": "x"}}}
ISSUED: Final[Json] = {"certManager": {"enabled": True, "issuerRef": {"name": "x"}}}
PUBLISHED: Final[Json] = {
    "ingress": {"enabled": True, "host": "x.org"},
    "httpRoute": {"enabled": True, "hostnames": ["x.org"], "parentRefs": [{"name": "x"}]},
}
SEPARATE: Final[Json] = {
    "api": {"tls": ISSUED, "auth": {"serviceAccounts": {"create": True}}, **PUBLISHED},
    "metrics": {"auth": True, "serviceMonitor": {"enabled": True, "authorization": {"name": "x"}}},
    "prober": {"vpa": {"enabled": True}},
    "weeder": {"vpa": {"enabled": True}},
}
SERVE: Final[Json] = {
    "mode": "serve",
    "serve": {"vpa": {"enabled": True}},
    "api": {
        "tls": {"secretName": "x"},
        "auth": {"mode": "token", "tokenSecret": {"name": "x"}},
        **PUBLISHED,
    },
    "metrics": {"auth": True, "podMonitor": {"enabled": True, "authorization": {"name": "x"}}},
}
ENDPOINTS: Final[Json] = {
    "prober": {
        "config": {
            "kubeConfigSecretName": None,
            "internalKubeConfigSecretName": "internal",
            "externalKubeConfigSecretName": "external",
            "endpointProbes": [
                {"name": "a", "host": "x.org", "tcpSocket": {"port": 1}},
                {"name": "b", "podSelector": {}, "tcpSocket": {"port": 2}},
            ],
        }
    }
}
LEFT: Final[Json] = {"pdb": {"maxUnavailable": None, "minAvailable": 1}}
ALONE: Final[Json] = {"replicas": 1}
WORLDS: Final[dict[str, Json]] = {
    "separate": SEPARATE,
    "serve": SERVE,
    "defaults": {},
    "some are left": {"prober": LEFT, "weeder": LEFT},
    "some are left of serve": {"mode": "serve", "serve": LEFT},
    "endpoint mode": ENDPOINTS,
    "alone": {"prober": ALONE, "weeder": ALONE, "api": {"tls": ISSUER}},
}
"""Between them there is no value that has nothing to be about."""
WHOLE: Final = ("resources", "affinity", "namespaces")
"""Sections that are one value, as in Kubernetes."""
_NUMBERS = count(31)


def leaves(found: Json, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values that are no sections, with their defaults."""
    for key, each in found.items():
        here = f"{path}.{key}".lstrip(".")
        if here.startswith(ELSEWHERE):
            continue
        properties = at(here).get("properties")
        if isinstance(each, dict) and properties and not here.endswith(WHOLE):
            yield from leaves(each, here)
        else:
            yield here, each


LEAVES: Final = dict(leaves(defaults()))
OTHERS: Final = (Path(__file__).parent / "other_values.yaml").read_text(encoding="utf-8")


def other(path: str, default: Any) -> Any:
    """A value that is not the default, and as far as possible not any other value's."""
    found = default
    while found == default:  # a number may happen to be
        found = _some(path, default)
    return found


def _some(path: str, default: Any) -> Any:
    number, name, known = next(_NUMBERS), path.rsplit(".", 1)[-1], at(path)
    others = yaml.safe_load(OTHERS.replace("<n>", str(number)))
    special = others.get(path, others.get(name))
    if special is not None:
        return special
    if "enum" in known:
        return next(each for each in known["enum"] if each != default)
    match default:
        case bool():
            return not default
        case dict():
            return {f"example.org/m{number}": f"m{number}"}
        case list():
            return [f"m{number}.org"]
        case _:
            return number if {"integer", "number"} & {*_types(known)} else f"m{number}"


def _types(known: Json) -> list[str]:
    found = known["type"]
    return [found] if isinstance(found, str) else list(found)


def within(path: str, value: Any) -> Json:
    """Values that say nothing but this."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def both(first: Json, second: Json) -> Json:
    """`second` over `first`."""
    found = dict(first)
    for key, each in second.items():
        inner = found.get(key)
        merged = isinstance(inner, dict) and isinstance(each, dict)
        found[key] = both(inner or {}, each) if merged else each
    return found


@pytest.mark.parametrize("path", LEAVES)
def test_a_value_has_an_effect(render: Renderer, path: str) -> None:
    """In one of the worlds at least; in some it does not go together with the others."""
    value, said = other(path, LEAVES[path]), []
    for name, world in WORLDS.items():
        given = value if value != now(world, path) else LEAVES[path]
        try:
            changed = render(values=both(world, within(path, given)))
        except Failed as failed:
            said.append(f"{name}: {failed.output}")
            continue
        if changed.text != render(values=world).text:
            return
        said.append(f"{name}: the same")
    raise AssertionError("\n".join([f"{path}: {value} changes nothing", *said]))


def now(world: Json, path: str) -> Any:
    """What a value is in a world."""
    found: Any = over_defaults(world)
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found
