"""The audit log of an API server: what was really asked of it, by whom, when, and what it answered."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLICY = Path(__file__).with_name("audit-policy.yaml").read_text(encoding="utf-8")
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as the server saw it."""

    at: float
    """When it was received, seconds since the epoch."""
    done: float
    """When it was answered; of a watch, when it was let in."""
    user: str
    verb: str
    group: str
    resource: str
    """With its subresource: `deployments/scale`; the path where it is no resource."""
    namespace: str
    name: str
    code: int
    body: dict[str, Any]
    credential: str = ""
    """Which token of a ServiceAccount was sent: its `jti`."""

    @property
    def writes(self) -> bool:
        """Whether it was meant to change something."""
        return self.verb not in {"get", "list", "watch"}

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        moment = dt.datetime.fromtimestamp(self.at, dt.UTC).strftime("%H:%M:%S.%f")[:-3]
        body = f" {json.dumps(self.body)}" if self.body else ""
        return f"{moment} {self.user} {self.verb} {self.resource} {where} -> {self.code}{body}"


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch that was let in."""

    began: Request
    ended: float | None
    """When it ended; None while it is open."""


class Audit:
    """The log of one API server; the server writes before it answers, so it is complete up to now."""

    def __init__(self, log: Path, *, start: int = 0) -> None:
        """`start`: so many bytes of the log are of no interest."""
        self.log, self._start = log, start

    @property
    def size(self) -> int:
        """Bytes of the log so far."""
        return self.log.stat().st_size if self.log.exists() else 0

    def requests(self, *, since: float = 0, user: str | None = None) -> list[Request]:
        """All finished requests (and begun watches) received from `since` on, oldest first."""
        found = (request for request in self._all() if request.at >= since)
        return sorted(
            (request for request in found if user is None or request.user == user),
            key=lambda request: request.at,
        )

    def watches(self, resource: str, *, user: str) -> list[Watch]:
        """The watches of a kind that were let in, oldest first."""
        events = [each for each in self._events() if each["verb"] == "watch"]
        ends = {each["auditID"]: _instant(each, "stage") for each in events if not _counts(each)}
        begun = [(_request(each), ends.get(each["auditID"])) for each in events if _counts(each)]
        fitting = [
            Watch(began, ended)
            for began, ended in begun
            if (began.resource, began.user, began.code) == (resource, user, 200)
        ]
        return sorted(fitting, key=lambda each: each.began.at)

    def _all(self) -> Iterator[Request]:
        return (_request(event) for event in self._events() if _counts(event))

    def _events(self) -> Iterator[dict[str, Any]]:
        if not self.log.exists():
            return
        with self.log.open("rb") as log:
            log.seek(self._start)
            content = log.read()
        for line in content.splitlines():
            event = _decoded(line)
            if event is not None:
                yield event


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:  # the last line may be half written, another one cut by a SIGKILL
        return None
    return event


def _counts(event: dict[str, Any]) -> bool:
    """A watch counts when it begins, everything else when it is complete."""
    return bool((event["stage"] == "ResponseStarted") == (event["verb"] == "watch"))


def _instant(event: dict[str, Any], which: str) -> float:
    return dt.datetime.fromisoformat(event[f"{which}Timestamp"]).timestamp()


def _request(event: dict[str, Any]) -> Request:
    what = event.get("objectRef") or {}
    subresource = f"/{what['subresource']}" if "subresource" in what else ""
    path = event["requestURI"].partition("?")[0]
    return Request(
        at=_instant(event, "requestReceived"),
        done=_instant(event, "stage"),
        user=event["user"].get(
            "username", ""
        ),  # nobody, where it was refused before it was asked who
        verb=event["verb"],
        group=what.get("apiGroup", ""),
        resource=what["resource"] + subresource if "resource" in what else path,
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        body=event.get("requestObject") or {},
        credential=_credential(event["user"]),
    )


def _credential(user: dict[str, Any]) -> str:
    named: list[str] = (user.get("extra") or {}).get(_CREDENTIAL, [""])
    return named[0].removeprefix("JTI=")
