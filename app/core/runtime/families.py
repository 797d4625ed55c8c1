"""Families of metrics that are written as text by ourselves, in slices, as there are thousands of series in them.

What prometheus_client makes of 12,000 series keeps the event loop for 70 to 100 ms.  Here a series is one string, and
whoever writes them stops after each slice, so that others in the loop have their turn (docs/performance.md).
"""

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

_TOTAL: Final = "_total"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Format(StrEnum):
    """How an exposition is written."""

    TEXT = "text"
    """Prometheus's own, 0.0.4 and 1.0.0."""
    OPEN_METRICS = "openmetrics"


class Kind(StrEnum):
    """What the numbers of a family are."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Family:
    """The name, the type and the labels of one family."""

    name: str
    """As its samples have it: that of a counter ends in `_total`."""
    kind: Kind
    text: str
    """What is counted or measured, and in which unit: one line without a backslash."""
    labels: tuple[str, ...]

    def head(self, written: Format) -> str:
        """The lines before its samples; OpenMetrics knows a counter by its name without `_total`."""
        name = self.name.removesuffix(_TOTAL) if written is Format.OPEN_METRICS else self.name
        return f"# HELP {name} {self.text}\n# TYPE {name} {self.kind}\n"

    def sample(self, values: tuple[str, ...], number: float) -> str:
        """One series; `values` are safe already (`escaped`), in the order of the labels."""
        labels = ",".join([f'{label}="{value}"' for label, value in zip(self.labels, values)])  # noqa: B905 - as many, and this runs 12,000 times a scrape
        return f"{self.name}{{{labels}}} {float(number)!r}\n"


def escaped(value: str) -> str:
    """The value of a label as it is written between quotes."""
    return value.translate(_ESCAPES)


Slices = Generator[None, None, str]
"""Work in slices: stops after each of them, and returns the whole text in the end."""


class SlicedSource(Protocol):
    """Whose families are written in slices."""

    def render(self, written: Format) -> Slices:
        """All of its families with their samples, as of now."""
        ...

    def families(self) -> tuple[Family, ...]:
        """What it writes."""
        ...
