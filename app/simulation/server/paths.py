"""What a path names; pure."""

from typing import Final, NamedTuple

_CORE: Final = 2
_NAMED: Final = 3
_NAMESPACES: Final = "namespaces"


class Target(NamedTuple):
    """What a request is about; empty where the path says nothing of it."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    part: str = ""
    """The subresource."""


def parse(path: str) -> Target | None:
    """The target of `/api/v1/…` or `/apis/GROUP/VERSION/…`; None where the path is no such one."""
    words = path.strip("/").split("/")
    match words:
        case ["api", version, *rest] if rest:
            return _target("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _target(group, version, rest)
        case _:
            return None


def _target(group: str, version: str, rest: list[str]) -> Target | None:
    if not all(rest) or len(rest) > _CORE + _NAMED:
        return None
    namespace = ""
    of_namespace = rest[_CORE:] == ["status"]  # a part of the Namespace itself
    if rest[0] == _NAMESPACES and len(rest) > _CORE and not of_namespace:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > _NAMED:
        return None
    plural, name, part = (*rest, "", "")[:_NAMED]
    return Target(group, version, plural, namespace, name, part)
