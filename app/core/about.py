"""What this program is called, and which version of it runs."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

NAME: Final = "dependency-watchdog"


def own_version() -> str:
    """The version of the installed package; `unknown` where it runs from a bare checkout."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"
