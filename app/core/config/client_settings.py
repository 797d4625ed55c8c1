"""The flags and arguments of the commands that call the API of a running watchdog."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Final

from app.core.config import values
from app.core.config.flags import Alias, CommandSettings, FlagOnly, Together
from app.core.config.values import AsText, LogLevel, NamespacedName, Origin, quoted
from app.core.errors import Mistake
from app.core.model.names import is_label, is_service, is_subdomain
from app.core.model.overrides import DEFAULT_HOLD, DEFAULT_PAUSE, Scope
from app.core.model.workloads import Direction

_MAX_ID: Final = 200
_PATH: Final = re.compile(r"/?[A-Za-z0-9._~!$&'()*+,;=:@%/-]{1,2000}(\?[\x21-\x7e]{0,4000})?")
"""A path and its query, as RFC 3986 writes them."""


class OutputFormat(StrEnum):
    """The format in which answers are printed."""

    TABLE = "table"
    WIDE = "wide"
    """A table with more columns, where a command has them."""
    NAME = "name"
    """The name of each thing alone, one on each line."""
    JSON = "json"
    YAML = "yaml"

    @property
    def for_people(self) -> bool:
        """Whether lines are written, instead of names or data for programs."""
        return self in {OutputFormat.TABLE, OutputFormat.WIDE}


class HttpMethod(StrEnum):
    """A method of HTTP that the API answers."""

    GET = "GET"
    HEAD = "HEAD"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


def _method(text: str) -> str:
    upper = text.upper()
    return upper if upper in set(HttpMethod) else values.one_of(HttpMethod, text)


def _etag(text: str) -> str:
    if not (text.isascii() and text.isprintable()):  # it becomes a header
        raise ValueError(f"must be an ETag, as the API shows it, not {quoted(text)}")
    return text


def _is_resource(word: str) -> bool:
    kind, slash, name = word.rpartition("/")
    return is_subdomain(name) and (not slash or kind.isalnum())


def _is_id(word: str) -> bool:
    return 0 < len(word) <= _MAX_ID and word.isprintable() and "/" not in word


_ARGUMENTS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "NAME": ("the control-plane namespace of a shoot", is_label),
    "SERVICE": ("the name of a Service", is_service),
    "RESOURCE": ("KIND/NAME or NAME", _is_resource),
    "ID": ("the id of an operation", _is_id),
    "PATH": ("a path of the API, such as shoots", _PATH.fullmatch),
    "up|down": ("up or down", frozenset(Direction).__contains__),
}
"""What each positional argument must be, by its word in the usage lines."""

_Switch = Annotated[values.Switch, FlagOnly()]
_Duration = Annotated[values.Duration, FlagOnly()]
_Reason = Annotated[str, AsText("TEXT", values.reason), FlagOnly()]
_OptionalReason = Annotated[
    str | None, AsText("TEXT", lambda text: text and values.reason(text)), FlagOnly()
]
_Watch = Annotated[_Switch, Alias("w")]
_ETag = Annotated[str | None, AsText("ETAG", _etag), FlagOnly()]


class ClientSettings(CommandSettings):
    """The flags that all client commands share: how to reach the API, and how to print its answers."""

    has_names: ClassVar[bool] = False
    """Whether the answer has names to print with `--output name`."""

    server: Annotated[Origin, AsText("URL", values.origin)] = Origin("http", "127.0.0.1", 8080)
    """Where the API is: http://HOST:PORT or https://HOST:PORT."""
    token_file: values.OptionalFile = None
    """A file with the bearer token to send, read again for each request."""
    ca_file: values.OptionalFile = None
    """The CA bundle (PEM) that verifies the server; by default that of this machine."""
    service_account: Annotated[NamespacedName | None, values.in_namespace("NAME")] = None
    """Send a token of this ServiceAccount of the seed, which your kubectl makes for an hour and renews: logged in as it
    always is."""
    kubeconfig: Annotated[Path | None, values.FILE, FlagOnly()] = None
    """Your kubeconfig, for the kubectl of --service-account and --port-forward. Without --service-account its user's
    token is sent if there is no --token-file; then only token and tokenFile are read, and no plugin is run."""
    context: Annotated[str | None, AsText("NAME"), FlagOnly()] = None
    """The context of the kubeconfig; by default its current one."""
    port_forward: Annotated[NamespacedName | None, values.in_namespace("DEPLOYMENT")] = None
    """Reach the API through kubectl port-forward to a pod of this Deployment, and to the leader's pod where only that
    one can answer. --server gives scheme and port, and with https the name on the certificate."""
    allow_plain_http: _Switch = False
    """Send the token over plain http to other machines too."""
    timeout: values.Duration = 10.0
    """How long an answer may take."""
    output: Annotated[OutputFormat, values.choice(OutputFormat), Alias("o")] = OutputFormat.TABLE
    """table and wide are for people, wide with more columns; name is the names alone, of lists and of what is begun;
    json and yaml show the API's answer as it is."""

    @classmethod
    def shared(cls) -> frozenset[str]:
        return frozenset(ClientSettings.model_fields)

    @classmethod
    def _names(cls) -> list[str]:
        """Returns the words for the positional arguments, whether they may be left out or not."""
        return [each.strip("[]").removesuffix("|--all") for each in cls.arguments()]

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        for index, (argument, name) in enumerate(zip(cls.arguments(), cls._names(), strict=True)):
            what, fits = _ARGUMENTS[name]
            if index < len(words):
                if not fits(words[index]):
                    yield Mistake(None, name, f"must be {what}, not {quoted(words[index])}")
            elif name == argument:  # one in brackets, or with an alternative, may be left out
                yield Mistake(None, name, "is missing")
        yield from super().wrong_words(words)

    def wrong_together(self, words: Sequence[str]) -> Together:
        del words
        with_names = ", ".join(name for name, each in CLIENT_SETTINGS.items() if each.has_names)
        no_names = self.output is OutputFormat.NAME and not self.has_names
        of_a_cluster = (self.kubeconfig, self.port_forward, self.service_account)
        no_cluster = self.context is not None and of_a_cluster == (None, None, None)
        two_tokens = self.service_account is not None and self.token_file is not None
        return [
            (no_names, "--output", f"name is for {with_names}"),
            (no_cluster, "--context", "needs --kubeconfig"),
            (two_tokens, "--service-account", "does not go with --token-file"),
        ]

    def shoot(self, words: Sequence[str]) -> str | None:
        """Returns which of the arguments names a shoot, if any does."""
        return dict(zip(self._names(), words, strict=False)).get("NAME")


class ShootsSettings(ClientSettings):
    """The flags of `dwd shoots`.

    Lists the shoots, worst first; with the control-plane namespace of one, all that is known about it.
    """

    has_names: ClassVar[bool] = True
    line: ClassVar[str] = "dwd shoots [NAME] [flags]"

    nodes: _Switch = False
    """Show its nodes too: which of them count, and the state of their leases. With NAME."""
    history: _Switch = False
    """Show its history too, newest first. With NAME."""
    watch: _Watch = False
    """Refresh every 2s until Ctrl-C."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        asked = self.nodes or self.history
        first = "--nodes" if self.nodes else "--history"
        both = self.nodes and self.history and not self.output.for_people
        by_name = asked and self.output is OutputFormat.NAME
        return [
            (self.nodes and not words, "--nodes", "needs NAME"),
            (self.history and not words, "--history", "needs NAME"),
            (by_name, "--output", f"name does not go with {first}"),
            (
                both and not by_name,
                "--output",
                f"{self.output} shows one answer: --nodes or --history",
            ),
            *super().wrong_together(words),
        ]


class _OneOrAllSettings(ClientSettings):
    """A command for one shoot, or for all."""

    all: _Switch = False
    """All shoots of the seed, instead of NAME."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        return [
            (not self.all and not words, "NAME", "is missing; --all is for all shoots"),
            (self.all and words, "NAME", "or --all must be given, not both"),
            *super().wrong_together(words),
        ]


class PauseSettings(_OneOrAllSettings):
    """The flags of `dwd pause`.

    Pauses one shoot or all: probing continues, but nothing is scaled or weeded (see --scope).
    """

    line: ClassVar[str] = "dwd pause NAME|--all --reason TEXT [flags]"

    reason: _Reason
    """The reason, for others to read."""
    duration: Annotated[_Duration, Alias("for")] = DEFAULT_PAUSE
    """For how long, at most 24h."""
    scope: Annotated[Scope, values.choice(Scope), FlagOnly()] = Scope.ALL
    """What to prevent: all (scaling and weeding), or only scaleDown."""
    force: _Switch = False
    """Even if controllers are at 0 now, and would stay there."""


class ResumeSettings(_OneOrAllSettings):
    """The flags of `dwd resume`.

    Ends the pause that dwd pause has made, of a shoot or of all; with --name another one, with --hold the hold of a
    shoot.
    """

    line: ClassVar[str] = "dwd resume NAME|--all [flags]"

    reason: _OptionalReason = None
    """The reason, for the audit."""
    name: Annotated[str | None, values.named("PAUSE", "the name of a Pause"), FlagOnly()] = None
    """Instead, end the Pause with this name, such as one made with kubectl; dwd shoots NAME has them."""
    hold: _Switch = False
    """Instead, end the hold that dwd scale set, and its scaling run if that still runs. With NAME."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        all_holds, two = self.hold and self.all, self.hold and self.name is not None
        return [
            *super().wrong_together(words),
            (all_holds, "--hold", "is for one shoot: a hold belongs to its shoot"),
            (two, "--name", "does not go with --hold"),
        ]


class IgnoreSettings(ClientSettings):
    """The flags of `dwd ignore`.

    Excludes one resource of a shoot from scaling until dwd unignore: sets its annotation ignore-scaling. RESOURCE is
    KIND/NAME, or NAME if only one kind has it.
    """

    line: ClassVar[str] = "dwd ignore NAME RESOURCE --reason TEXT [flags]"

    reason: _Reason
    """The reason, for the audit and an Event."""
    force: _Switch = False
    """Even if it is at 0 now, and would stay there."""


class UnignoreSettings(ClientSettings):
    """The flags of `dwd unignore`.

    Includes one resource of a shoot in scaling again: removes its annotation ignore-scaling. RESOURCE is KIND/NAME, or
    NAME if only one kind has it.
    """

    line: ClassVar[str] = "dwd unignore NAME RESOURCE [flags]"

    reason: _OptionalReason = None
    """The reason, for the audit and an Event."""


class ScaleSettings(ClientSettings):
    """The flags of `dwd scale`.

    Scales the controllers of a shoot by hand, level by level, and holds the automatic verdicts back for a while.
    """

    has_names: ClassVar[bool] = True
    line: ClassVar[str] = "dwd scale up|down NAME --reason TEXT [flags]"

    reason: _Reason
    """The reason, for others to read."""
    hold: _Duration = DEFAULT_HOLD
    """How long automatic verdicts are shown but not acted on after its end, at most 24h."""
    dry_run: _Switch = False
    """Only show the plan."""
    force: _Switch = False
    """Even if the shoot is not probed, or up although the leases call for down."""
    if_match: _ETag = None
    """Only if the resources are unchanged since the dry run that showed this ETag."""
    wait: _Switch = False
    """Wait until the scaling run has ended; exit with code 7 if it did not succeed."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        by_name = self.dry_run and self.output is OutputFormat.NAME
        return [
            (by_name, "--output", "a plan has no name"),
            (self.dry_run and self.wait, "--wait", "has nothing to wait for after --dry-run"),
            *super().wrong_together(words),
        ]


class ProbeSettings(ClientSettings):
    """The flags of `dwd probe`.

    Probes a shoot now.
    """

    line: ClassVar[str] = "dwd probe NAME [flags]"

    reason: _OptionalReason = None
    """The reason, for the audit."""


class WeedSettings(ClientSettings):
    """The flags of `dwd weed`.

    Restarts the pods of a shoot's control plane that depend on a service and wait in CrashLoopBackOff, by the same
    rules as when the service comes back.
    """

    line: ClassVar[str] = "dwd weed NAME SERVICE [flags]"

    reason: _OptionalReason = None
    """The reason, for the audit."""
    force: _Switch = False
    """Even while a pause forbids it."""


class WeedersSettings(ClientSettings):
    """The flags of `dwd weeders`.

    Lists the services that came back, those with the newest recovery first; with NAME those of one control plane, with
    SERVICE each pod that was deleted, and why others were not.
    """

    has_names: ClassVar[bool] = True
    line: ClassVar[str] = "dwd weeders [NAME [SERVICE]] [flags]"

    running: _Switch = False
    """Only services that have a recovery now."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        of_one = self.running and words[1:]
        return [
            (of_one, "--running", "does not go with SERVICE"),
            *super().wrong_together(words),
        ]


class StatusSettings(ClientSettings):
    """The flags of `dwd status`.

    Shows the process that answers: its version, who leads, how many shoots are in each state, and what needs attention:
    features that are off, rights that are missing, warnings.
    """

    line: ClassVar[str] = "dwd status [flags]"


class AuditSettings(ClientSettings):
    """The flags of `dwd audit`.

    Lists the attempts to change something through the process that answers: who, what, when, why, and the outcome,
    newest first; with NAME only those on one shoot.
    """

    line: ClassVar[str] = "dwd audit [NAME] [flags]"

    caller: Annotated[str | None, AsText("CALLER"), FlagOnly()] = None
    """Only attempts of this caller."""


class ConfigSettings(ClientSettings):
    """The flags of `dwd config`.

    Shows what the process that answers is configured to do: its flags and its files, with all defaults.
    """

    line: ClassVar[str] = "dwd config [flags]"

    log_level: Annotated[LogLevel | None, values.LOG_LEVEL, FlagOnly()] = None
    """Instead, set the level at which it logs until its next start."""


class PageSettings(ClientSettings):
    """The flags of `dwd page`.

    Opens the page of the watchdog in your browser, until Ctrl-C: a proxy on 127.0.0.1, for that browser alone, adds the
    token, follows the leader, and mends the way when it breaks.
    """

    line: ClassVar[str] = "dwd page [flags]"

    port: Annotated[int, AsText("PORT", values.local_port), FlagOnly()] = 0
    """The port of the proxy on 127.0.0.1; 0: any that is free."""
    no_browser: _Switch = False
    """Only print the address."""


class EventsSettings(ClientSettings):
    """The flags of `dwd events`.

    Follows what changes, in all shoots or in one, until Ctrl-C; resumes after a broken connection.
    """

    line: ClassVar[str] = "dwd events [NAME] [flags]"


class OperationsSettings(ClientSettings):
    """The flags of `dwd operations`.

    Lists the scaling runs, manual and automatic ones, newest first; with the id of one, step by step.
    """

    has_names: ClassVar[bool] = True
    line: ClassVar[str] = "dwd operations [ID] [flags]"

    cancel: _Switch = False
    """Cancel it between two steps; its hold ends. With ID, and only a manual one."""
    reason: _OptionalReason = None
    """The reason for --cancel, for the audit."""
    watch: _Watch = False
    """Refresh every 2s until Ctrl-C, or until the scaling run with this ID has ended."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        return [
            (self.cancel and not words, "--cancel", "needs ID"),
            (self.cancel and self.watch, "--watch", "does not go with --cancel"),
            (self.reason is not None and not self.cancel, "--reason", "needs --cancel"),
            *super().wrong_together(words),
        ]


class ApiCommandSettings(ClientSettings):
    """The flags of `dwd api`.

    Sends any request to the API and prints the answer. PATH is as in the API's pages, with or without /api/v1/: shoots,
    'audit?limit=5', /api/v1/status.
    """

    line: ClassVar[str] = "dwd api PATH [flags]"

    method: Annotated[
        HttpMethod | None,
        AsText("METHOD", _method),
        FlagOnly(),
        Alias("X"),
    ] = None
    """GET, HEAD, POST, PUT, PATCH or DELETE; by default GET, and POST with --data."""
    data: Annotated[str | None, AsText("JSON"), FlagOnly(), Alias("d")] = None
    """The body: JSON, @FILE for a file, or - for standard input."""
    if_match: _ETag = None
    """The header If-Match."""
    include: Annotated[_Switch, Alias("i")] = False
    """Print status and headers before the answer."""

    def wrong_together(self, words: Sequence[str]) -> Together:
        no_body = self.data is not None and self.method in {HttpMethod.GET, HttpMethod.HEAD}
        is_wide = self.output is OutputFormat.WIDE
        return [
            (no_body, "--data", f"does not go with --method {self.method}"),
            (is_wide, "--output", "wide is for tables, which dwd api does not make"),
            *super().wrong_together(words),
        ]


CLIENT_SETTINGS: Final[Mapping[str, type[ClientSettings]]] = MappingProxyType(
    {
        "shoots": ShootsSettings,
        "pause": PauseSettings,
        "resume": ResumeSettings,
        "ignore": IgnoreSettings,
        "unignore": UnignoreSettings,
        "scale": ScaleSettings,
        "probe": ProbeSettings,
        "weed": WeedSettings,
        "page": PageSettings,
        "events": EventsSettings,
        "operations": OperationsSettings,
        "weeders": WeedersSettings,
        "status": StatusSettings,
        "audit": AuditSettings,
        "config": ConfigSettings,
        "api": ApiCommandSettings,
    }
)
"""The settings class of each client command, by name."""
