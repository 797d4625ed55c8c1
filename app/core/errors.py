"""All foreseeable errors, in one tree.

    WatchdogError
    ├── ConfigurationError        a file or flag is wrong: all mistakes at once, exit code 2
    ├── DemoNotInstalled          the simulation is not part of this installation
    ├── CredentialRefused         a kubeconfig that may not be used (threats T1-T5)
    ├── LeadershipLost            another replica leads, or nobody can tell
    ├── Refused                   a rule forbids what a person asks for now
    │   ├── RunInProgress         another manual scaling run is in progress
    │   ├── EntryChanged          somebody else changed the same override
    │   ├── VersionChanged        the resource is not what the caller saw (If-Match)
    │   └── OperationGone         an operation of an earlier leader
    ├── NotKnownYet               a dependency has not been read since the start
    ├── FeatureUnavailable        a part of the program that is off here, and why
    └── ClusterError              a request to an API server failed
        ├── Unreachable           no answer: refused, cut, timed out
        │   └── NameUnresolved        the server's name has no address
        ├── AddressForbidden      the server's name resolves to a forbidden address (threat T5)
        ├── CertificateUntrusted  the server is not who the kubeconfig says
        ├── Unauthorized          401
        ├── Forbidden             403
        ├── NotFound              404
        ├── Conflict              409
        ├── Expired               410, or a resourceVersion that is too old
        ├── Invalid               400, 415, 422
        ├── Throttled             429
        ├── ServerFault           5xx
        ├── BadAnswer             3xx, HTML with 200, wrong kind, cut or compressed bodies
        └── LimitExceeded         longer, deeper or more than we are willing to read

Errors of libraries are translated where they enter (`core/kube/connections`), with the cause chained. Messages are for
operators: one trimmed line, without control characters, tokens and keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_MESSAGE = 300


def trimmed(text: str, limit: int = MAX_MESSAGE) -> str:
    """Returns `text` as one printable line of at most `limit` characters."""
    if len(text) <= limit and text.isprintable() and "  " not in text and text == text.strip():
        return text  # as almost all are
    line = text[: limit * 4]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else " " for c in line)
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class WatchdogError(Exception):
    """The base of all foreseeable errors."""


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake in a configuration file or flag."""

    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        where = self.path or "(file)"
        return (
            f"{where}: {self.message}"
            if self.line is None
            else f"line {self.line}: {where}: {self.message}"
        )


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """A setting in a file or flag that is accepted, but probably not what the operator meant."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path} (line {self.line})"
        return f"{where}: {self.message}"


class ConfigurationError(WatchdogError):
    """A file or flag is wrong; `mistakes` has all mistakes."""

    def __init__(self, source: str, mistakes: Sequence[Mistake]) -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(f"{source}: {mistake}" for mistake in self.mistakes))


class DemoNotInstalled(WatchdogError):
    """`dwd demo` was called, but the simulation is not installed."""


class CredentialRefused(WatchdogError):
    """A kubeconfig may not be used; the message names the field, never its value."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        """A short word for the metric, e.g. `exec`, `server`, `malformed`."""
        super().__init__(trimmed(message))

    @property
    def missing(self) -> bool:
        """Whether there is none yet, or one without a token, as opposed to one that is not accepted."""
        return self.reason in {"no-kubeconfig", "no-token"}


class LeadershipLost(WatchdogError):
    """This replica may not write any more."""


class Refused(WatchdogError):
    """A rule forbids what a person asks for in the current situation; the message says which, and what would help."""


class RunInProgress(Refused):
    """Another manual scaling run is in progress for the same shoot."""

    def __init__(self, operation: str, message: str) -> None:
        self.operation = operation
        """The id of that run."""
        super().__init__(message)

    @classmethod
    def of(cls, operation: str, namespace: str) -> "RunInProgress":
        """Creates the error for an operation that runs for this shoot, or is to be resumed."""
        text = f"operation {operation} is running for {namespace}; cancel it, or wait for its end"
        return cls(operation, text)


class EntryChanged(Refused):
    """Somebody else changed the same override at the same time; `now` is what is there now."""

    def __init__(self, message: str, now: object = None) -> None:
        self.now = now
        super().__init__(message)


class VersionChanged(Refused):
    """The resources are not what the caller saw (`If-Match`)."""


class OperationGone(Refused):
    """The operation belongs to an earlier leader and was not resumed."""


class NotKnownYet(WatchdogError):
    """A dependency has not been read since the start, but soon will be."""


class FeatureUnavailable(WatchdogError):
    """The feature is off in this process; the message says why."""

    def __init__(self, feature: str, message: str) -> None:
        self.feature = feature
        super().__init__(message)


class ClusterError(WatchdogError):
    """A request to an API server failed."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        self.status = status
        self.retry_after = retry_after
        """The pause that the server asked for, in seconds."""
        super().__init__(trimmed(message))


class Unreachable(ClusterError):
    """No answer: refused, cut, timed out."""


class NameUnresolved(Unreachable):
    """The resolver knows no address of the server's name, so the server was never asked."""


class AddressForbidden(ClusterError):
    """The server's name resolves to a forbidden address (threat T5)."""


class CertificateUntrusted(ClusterError):
    """The server's certificate is not trusted by the kubeconfig's CA."""


class Unauthorized(ClusterError):
    """401: our credentials are not accepted."""


class Forbidden(ClusterError):
    """403: the right is missing; the message has verb and resource."""


class NotFound(ClusterError):
    """404."""


class Conflict(ClusterError):
    """409: the object has changed since it was read."""


class Expired(ClusterError):
    """410: the server no longer has this resourceVersion or continue token."""


class Invalid(ClusterError):
    """400, 415 or 422: the request is wrong."""


class Throttled(ClusterError):
    """429; `retry_after` if the server said how long to wait."""


class ServerFault(ClusterError):
    """5xx."""


class BadAnswer(ClusterError):
    """The answer is not what was asked for."""


LIMITS: Final = ("size", "time", "depth", "count", "crumbs")
"""The limits that an answer may exceed."""


class LimitExceeded(ClusterError):
    """An answer exceeded a limit, one of `LIMITS`, and was not read further."""

    def __init__(self, limit: str, message: str) -> None:
        self.limit = limit
        super().__init__(message)


UNSURE: Final = (Unreachable, ServerFault, BadAnswer, LimitExceeded)
"""Errors of a write after which it is not known whether it was carried out."""
