"""The metrics of the running program, as it serves them."""

import math
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from bench.perf.figures import Buckets


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of one instant."""

    samples: tuple[Sample, ...]

    @classmethod
    def parse(cls, text: str) -> "Scrape":
        """Reads an exposition."""
        return cls(
            tuple(
                Sample(each.name, each.labels, each.value)
                for family in text_string_to_metric_families(text)
                for each in family.samples
            )
        )

    def _of(self, name: str, labels: Mapping[str, str]) -> Iterable[Sample]:
        return (
            each
            for each in self.samples
            if each.name == name and labels.items() <= each.labels.items()
        )

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels; 0 where there is none."""
        return math.fsum(each.value for each in self._of(name, labels))

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The same for each value of one label."""
        found: dict[str, float] = {}
        for each in self._of(name, labels):
            key = each.labels.get(label, "")
            found[key] = found.get(key, 0.0) + each.value
        return found

    def buckets(self, name: str, **labels: str) -> Buckets:
        """A histogram, summed over what the labels leave open."""
        found: dict[float, float] = {}
        for each in self._of(f"{name}_bucket", labels):
            bound = float(each.labels["le"])
            found[bound] = found.get(bound, 0.0) + each.value
        return Buckets(found)


def scrape(port: int) -> Scrape:
    """The metrics that are served on a port of this machine; OSError where nothing is."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return Scrape.parse(answer.read().decode())
