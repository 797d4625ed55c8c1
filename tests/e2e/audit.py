"""The audit log of an API server: what was really asked of it, by whom, when, and what it answered."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Bodies only of patches of what the watchdog scales; everything else by its name. The API server's own loops are left
# out, and so is the first of the two stages of a request: `ResponseStarted` is kept, a watch has no other for minutes.
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:apiserver]
- level: Request
  verbs: [patch, update]
  resources:
  - {group: apps, resources: [deployments, statefulsets]}
  - {group: example.org}
- level: None
  users: [admin]
- level: Metadata
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as the server saw it."""

    at: float
    """When it was received, seconds since the epoch."""
    user: str
    verb: str
    group: str
    resource: str
    """With its subresource: `deployments/scale`; the path where it is no resource."""
    namespace: str
    name: str
    code: int
    body: dict[str, Any]

    @property
    def writes(self) -> bool:
        """Whether it was meant to change something."""
        return self.verb not in {"get", "list", "watch"}

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        moment = dt.datetime.fromtimestamp(self.at, dt.UTC).strftime("%H:%M:%S.%f")[:-3]
        body = f" {json.dumps(self.body)}" if self.body else ""
        return f"{moment} {self.user} {self.verb} {self.resource} {where} -> {self.code}{body}"


class Audit:
    """The log of one API server; the server writes before it answers, so it is complete up to now."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def requests(self, *, since: float = 0, user: str | None = None) -> list[Request]:
        """All finished requests (and begun watches) received from `since` on, oldest first."""
        found = (request for request in self._all() if request.at >= since)
        return sorted(
            (request for request in found if user is None or request.user == user),
            key=lambda request: request.at,
        )

    def _all(self) -> Iterator[Request]:
        if not self.log.exists():
            return
        for line in self.log.read_text().splitlines():
            event = _decoded(line)
            if event is not None and _counts(event):
                yield _request(event)


def _decoded(line: str) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:  # the last line may be half written, another one cut by a SIGKILL
        return None
    return event


def _counts(event: dict[str, Any]) -> bool:
    """A watch counts when it begins, everything else when it is complete."""
    return bool((event["stage"] == "ResponseStarted") == (event["verb"] == "watch"))


def _request(event: dict[str, Any]) -> Request:
    what = event.get("objectRef") or {}
    subresource = f"/{what['subresource']}" if "subresource" in what else ""
    path = event["requestURI"].partition("?")[0]
    return Request(
        at=dt.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
        user=event["user"]["username"],
        verb=event["verb"],
        group=what.get("apiGroup", ""),
        resource=what["resource"] + subresource if "resource" in what else path,
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        body=event.get("requestObject") or {},
    )
