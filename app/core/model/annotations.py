"""The four annotations that the watchdog and Gardener share, and what their values mean."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

PREFIX: Final = "dependency-watchdog.gardener.cloud/"

REPLICAS: Final = PREFIX + "replicas"
"""The *saved count*: the replicas to come back to."""

MELTDOWN: Final = PREFIX + "meltdown-protection-active"
"""The *meltdown key*: its presence counts; gardenlet leaves the replicas alone while it is there."""

SINCE: Final = PREFIX + "meltdown-protection-since"
"""When the protection began, RFC 3339."""

IGNORE_SCALING: Final = PREFIX + "ignore-scaling"
"""A person's wish that nobody scales this resource."""

OURS: Final = frozenset({REPLICAS, MELTDOWN, SINCE, IGNORE_SCALING})

_COUNT: Final = re.compile(r"[1-9][0-9]{0,9}")
_MAX_COUNT: Final = 2**31 - 1
_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})


class Ignore(StrEnum):
    """What the ignore-scaling annotation asks for."""

    NO = "No"
    YES = "Yes"
    INVALID = "Invalid"
    """Neither true nor false for Go's ParseBool: the resource is scaled, with a warning."""


def ignore_scaling(annotations: Mapping[str, str]) -> Ignore:
    """Reads ignore-scaling as Go's ParseBool does."""
    value = annotations.get(IGNORE_SCALING)
    if value is None or value in _FALSE:
        return Ignore.NO
    return Ignore.YES if value in _TRUE else Ignore.INVALID


def saved_count(annotations: Mapping[str, str]) -> int | None:
    """The saved count, or None where it is absent or invalid."""
    value = annotations.get(REPLICAS)
    if value is None or not _COUNT.fullmatch(value):
        return None
    count = int(value)
    return count if count <= _MAX_COUNT else None


def saved_count_is_invalid(annotations: Mapping[str, str]) -> bool:
    """Whether a saved count is there that cannot be one."""
    return REPLICAS in annotations and saved_count(annotations) is None


def protected(annotations: Mapping[str, str]) -> bool:
    """Whether the meltdown key is there; its value means nothing."""
    return MELTDOWN in annotations
