"""What a list or a watch asks for beyond its path; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from app.core.errors import Invalid


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list or a watch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    """0: no pages."""
    continues: str = ""
    version: int | None = None
    """The resourceVersion; None: none was named."""
    watch: bool = False
    timeout: int | None = None
    """Seconds after which a watch ends."""
    bookmarks: bool = False
    initial_events: bool = False
    """Whether the watch begins with all that is there, and a bookmark."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Reads the query of a request.

        Raises:
            Invalid: a value is none of its kind.
        """
        version = query.get("resourceVersion", "")
        timeout = query.get("timeoutSeconds", "")
        return cls(
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            limit=_number("limit", query.get("limit", "") or "0"),
            continues=query.get("continue", ""),
            version=_number("resourceVersion", version) if version else None,
            watch=_truth("watch", query.get("watch", "")),
            timeout=_number("timeoutSeconds", timeout) if timeout else None,
            bookmarks=_truth("allowWatchBookmarks", query.get("allowWatchBookmarks", "")),
            initial_events=_truth("sendInitialEvents", query.get("sendInitialEvents", "")),
        )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Invalid(f"{name}: Invalid value: {text!r}: must be a number", status=400)
    return int(text)


def _truth(name: str, text: str) -> bool:
    match text.lower():
        case "" | "0" | "f" | "false":
            return False
        case "1" | "t" | "true":
            return True
        case _:
            raise Invalid(f"{name}: Invalid value: {text!r}: must be true or false", status=400)
