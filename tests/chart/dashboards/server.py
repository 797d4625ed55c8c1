"""A real Prometheus of our own, on loopback, and its HTTP API."""

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import yaml

from tests.e2e.processes import Child, free_port

_PATIENCE: Final = 20.0
SEEDS = ONE, LEAN = "one", "lean"
"""What the label `seed` is: the same processes, once with all of their series and once without those for each shoot."""


@dataclass(frozen=True, slots=True)
class Target:
    """A process to scrape, with the labels that a ServiceMonitor of the chart gives its series."""

    job: str
    instance: str
    """host:port"""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of an answer."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    """Times and values."""

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value for _, value in self.points)

    @property
    def last(self) -> float:
        return self.points[-1][1]


class Refused(Exception):
    """Prometheus answered with an error."""


class Prometheus:
    """The process; its data and its log lie in `folder`."""

    def __init__(self, binary: Path, folder: Path, targets: list[Target]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(_config(targets)))
        self.child = Child(
            "prometheus",
            [
                str(binary),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={urlsplit(self.url).netloc}",
            ],
            folder,
        )

    async def start(self) -> None:
        """Returns when it answers."""
        await self.child.start()
        await self.child.ready(self._answers, within=_PATIENCE)

    async def stop(self) -> None:
        await self.child.stop()

    async def _answers(self) -> bool:
        try:
            await self.get("/-/ready")
        except (OSError, Refused):
            return False
        return True

    async def at(self, expression: str, moment: float) -> list[Series]:
        """An instant query."""
        found = await self._query("query", query=expression, time=moment)
        return [_series(each["metric"], [each["value"]]) for each in found["result"]]

    async def over(self, expression: str, begin: float, end: float, step: float) -> list[Series]:
        """A range query."""
        found = await self._query("query_range", query=expression, start=begin, end=end, step=step)
        return [_series(each["metric"], each["values"]) for each in found["result"]]

    async def label_values(self, label: str, selector: str) -> list[str]:
        """What Grafana asks for `label_values(selector, label)`."""
        answer = await self.get(f"/api/v1/label/{label}/values?{urlencode({'match[]': selector})}")
        found: list[str] = json.loads(answer)["data"]
        return found

    async def _query(self, what: str, **parameters: object) -> Any:
        answer = json.loads(await self.get(f"/api/v1/{what}?{urlencode(parameters)}"))
        assert not answer.get("warnings"), answer["warnings"]
        return answer["data"]

    async def get(self, path: str) -> bytes:
        """The body of an answer 200.

        Raises:
            Refused: it is another.
            OSError: there is none.
        """
        return await asyncio.to_thread(_get, self.url + path)


def _get(url: str) -> bytes:
    try:
        with urlopen(url, timeout=_PATIENCE) as answer:  # noqa: S310  loopback
            body: bytes = answer.read()
            return body
    except HTTPError as error:
        raise Refused(f"{url}: {error.read().decode(errors='replace')}") from error


def _series(labels: Mapping[str, str], points: list[tuple[float, str]]) -> Series:
    return Series(labels, tuple((at, float(value)) for at, value in points))


def sane(series: Series) -> bool:
    """Whether all of its values are numbers that a panel can draw."""
    return all(math.isfinite(value) for value in series.values)


def _config(targets: list[Target]) -> dict[str, Any]:
    """As the chart's ServiceMonitors make it: labels of ours win over those of the target with the same name.

    All of it twice, as two seeds; of the second the series for each shoot are not kept.
    """
    jobs = sorted({each.job for each in targets})
    lean = {
        "source_labels": ["__name__"],
        "regex": "dwd_shoot_(state|node_leases|last_probe_.*|probe_.*|scale_.*)|dwd_override_.*",
        "action": "drop",
    }
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            _job(seed, job, [each.instance for each in targets if each.job == job])
            | {"metric_relabel_configs": [lean] if seed == LEAN else []}
            for seed in SEEDS
            for job in jobs
        ],
    }


def _job(seed: str, job: str, instances: list[str]) -> dict[str, Any]:
    labels = {
        "seed": seed,
        "job": job,
        "namespace": "garden",
        "service": job,
        "container": "dependency-watchdog",
        "endpoint": "metrics",
    }
    return {
        "job_name": f"{seed}/{job}",
        "honor_labels": True,
        "static_configs": [{"targets": instances, "labels": labels}],
    }
