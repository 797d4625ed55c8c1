"""Every error that can be foreseen, in one tree.

    WatchdogError
    ├── ConfigurationError        a file or flag is wrong: all mistakes at once, exit code 2
    ├── DemoNotInstalled          the simulation is not part of this installation
    ├── CredentialRefused         a kubeconfig that may not be used (threats T1-T5)
    ├── LeadershipLost            another instance leads, or nobody can tell
    ├── Refused                   a rule forbids what a person asks for now
    │   ├── RunInProgress         another manual scaling run goes on
    │   ├── EntryChanged          somebody else changed the same override
    │   ├── VersionChanged        it is not what the caller saw (If-Match)
    │   └── OperationGone         an operation of an earlier leader
    ├── NotKnownYet               what it depends on has not been read since the start
    ├── FeatureOff                a part of the program that is off here, and why
    ├── StoreFull                 the overrides would be too large to be kept
    └── ClusterError              an API server did not give what was asked for
        ├── Unreachable           no answer: refused, cut, timed out
        │   └── NameUnresolved        the server's name has no address
        ├── AddressForbidden      the server's name leads to an address that may not be asked (threat T5)
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

Errors of libraries are translated where they enter (`core/kube/failures`), the cause chained.  Messages are for an
operator: one line, trimmed, free of control characters, tokens and keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_MESSAGE = 300


def trimmed(text: str, limit: int = MAX_MESSAGE) -> str:
    """`text` as one printable line of at most `limit` characters."""
    if len(text) <= limit and text.isprintable() and "  " not in text and text == text.strip():
        return text  # as almost all are
    line = text[: limit * 4]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else " " for c in line)
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class WatchdogError(Exception):
    """Anything that the watchdog foresees going wrong."""


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One thing that is wrong in a configuration file or flag."""

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


class ConfigurationError(WatchdogError):
    """A file or flag that is wrong; `mistakes` has all of them."""

    def __init__(self, source: str, mistakes: Sequence[Mistake]) -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(f"{source}: {mistake}" for mistake in self.mistakes))


class DemoNotInstalled(WatchdogError):
    """`dwd demo` was asked for where the simulation is not."""


class CredentialRefused(WatchdogError):
    """A kubeconfig that may not be used; the message names the field, never its value."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        """A short word for the metric, e.g. `exec`, `server`, `malformed`."""
        super().__init__(trimmed(message))


class LeadershipLost(WatchdogError):
    """This instance may not write any more."""


class Refused(WatchdogError):
    """A rule forbids what a person asks for, as things are; the message says which, and what would help."""


class RunInProgress(Refused):
    """Another manual scaling run runs for the same shoot."""

    def __init__(self, operation: str, message: str) -> None:
        self.operation = operation
        """Its id."""
        super().__init__(message)

    @classmethod
    def of(cls, operation: str, namespace: str) -> "RunInProgress":
        """This operation runs for this shoot, or is to be carried on."""
        text = f"operation {operation} is running for {namespace}; cancel it, or wait for its end"
        return cls(operation, text)


class EntryChanged(Refused):
    """Somebody else changed the same override meanwhile; `now` is what is there, in the words of the ConfigMap."""

    def __init__(self, message: str, now: object = None) -> None:
        self.now = now
        super().__init__(message)


class VersionChanged(Refused):
    """The resources are not what the caller saw."""


class OperationGone(Refused):
    """The operation is one of an earlier leader, and was not carried on."""


class NotKnownYet(WatchdogError):
    """What this depends on has not been read since the start; it will be in a moment."""


class FeatureOff(WatchdogError):
    """A part of the program that is off here; the message says why."""

    def __init__(self, feature: str, message: str) -> None:
        self.feature = feature
        super().__init__(message)


class StoreFull(WatchdogError):
    """The overrides would be larger than what a ConfigMap may hold."""


class ClusterError(WatchdogError):
    """An API server did not give what was asked for."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        self.status = status
        self.retry_after = retry_after
        """Seconds, where the server asked for a pause."""
        super().__init__(trimmed(message))


class Unreachable(ClusterError):
    """No answer: refused, cut, timed out."""


class NameUnresolved(Unreachable):
    """The server's name has no address, as far as the resolver says: it was never asked."""


class AddressForbidden(ClusterError):
    """The server's name leads to an address that may not be asked (threat T5)."""


class CertificateUntrusted(ClusterError):
    """The server's certificate is not one that the kubeconfig's CA vouches for."""


class Unauthorized(ClusterError):
    """401: who we are is not accepted."""


class Forbidden(ClusterError):
    """403: what we ask for is not ours to ask; the message has verb and resource."""


class NotFound(ClusterError):
    """404."""


class Conflict(ClusterError):
    """409: the object is newer than what was decided on."""


class Expired(ClusterError):
    """410: a resourceVersion or page token that the server no longer knows."""


class Invalid(ClusterError):
    """400, 415 or 422: the request is wrong."""


class Throttled(ClusterError):
    """429; `retry_after` where the server said."""


class ServerFault(ClusterError):
    """5xx."""


class BadAnswer(ClusterError):
    """An answer that is not what was asked for."""


LIMITS: Final = ("size", "time", "depth", "count", "crumbs")
"""Those that an answer may hit."""


class LimitExceeded(ClusterError):
    """An answer that was cut off; `limit` is one of `LIMITS`."""

    def __init__(self, limit: str, message: str) -> None:
        self.limit = limit
        super().__init__(message)
