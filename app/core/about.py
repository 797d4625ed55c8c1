"""The name of this program and its version."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

NAME: Final = "dependency-watchdog"


def own_version() -> str:
    """Returns the version of the installed package; `unknown` in a bare checkout."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"
