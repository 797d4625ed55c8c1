"""The flags of the commands that call the API of a running watchdog."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field

from app.core.config import flag_values as values
from app.core.config.client_values import (
    Deployment,
    Origin,
    ServiceAccount,
    deployment,
    local_port,
    origin,
    reason,
    service_account,
)
from app.core.config.env_variables import CommandSettings, FlagOnly, unexpected
from app.core.config.flag_values import FlagType, LogLevel
from app.core.errors import Mistake, trimmed
from app.core.model.names import is_label, is_service, is_subdomain
from app.core.model.overrides import DEFAULT_HOLD, DEFAULT_PAUSE, Scope
from app.core.model.workloads import Direction

_SHOWN: Final = 100
_MAX_ID: Final = 200
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
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


def _one_of(choices: type[StrEnum]) -> BeforeValidator:
    def check(value: object) -> object:
        if value not in set(choices):
            raise ValueError(
                f'must be one of {", ".join(choices)}, not "{trimmed(str(value), _SHOWN)}"'
            )
        return value

    return BeforeValidator(check)


def _method(text: str | None) -> str | None:
    if text is not None and text.upper() not in _METHODS:
        raise ValueError(f'must be one of {", ".join(_METHODS)}, not "{trimmed(text, _SHOWN)}"')
    return text and text.upper()


def _object_name(text: str | None) -> str | None:
    if text is not None and not is_subdomain(text):
        raise ValueError(f'must be the name of a Pause, not "{trimmed(text, _SHOWN)}"')
    return text


def _file(text: object) -> object:
    return values.file(text) if isinstance(text, str) else text


_OptionalFile = Annotated[Path | None, BeforeValidator(_file), FlagType("FILE"), FlagOnly()]
_Switch = Annotated[values.Switch, FlagOnly()]
_OptionalReason = Annotated[
    str | None, AfterValidator(lambda it: it and reason(it)), FlagType("TEXT"), FlagOnly()
]
_OptionalName = Annotated[str | None, AfterValidator(_object_name), FlagType("PAUSE"), FlagOnly()]
_Reason = Annotated[str, AfterValidator(reason), FlagType("TEXT"), FlagOnly()]
_Duration = Annotated[values.Duration, FlagOnly()]
_Server = Annotated[
    Origin, BeforeValidator(lambda it: origin(it) if isinstance(it, str) else it), FlagType("URL")
]
_Deployment = Annotated[
    Deployment | None,
    BeforeValidator(lambda it: deployment(it) if isinstance(it, str) else it),
    FlagType("NAMESPACE/DEPLOYMENT"),
]
_ServiceAccount = Annotated[
    ServiceAccount | None,
    BeforeValidator(lambda it: service_account(it) if isinstance(it, str) else it),
    FlagType("NAMESPACE/NAME"),
]
_Output = Annotated[OutputFormat, _one_of(OutputFormat), FlagType("table|wide|name|json|yaml")]
_LogLevel = Annotated[
    LogLevel | None,
    values.of_text(values.log_level),
    FlagType("debug|info|warning|error"),
    FlagOnly(),
]
_Scope = Annotated[Scope, _one_of(Scope), FlagType("all|scaleDown"), FlagOnly()]


class ClientSettings(CommandSettings):
    """The flags that all client commands share: how to reach the API, and how to print its answers."""

    takes_arguments: ClassVar[bool] = True
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({"o": "output"})
    line: ClassVar[str]
    """The usage line of the command."""
    about: ClassVar[str]
    """A description of the command for `--help`."""
    shoot_word: ClassVar[int | None] = None
    """The index of the positional argument that names a shoot; None if there is none."""
    has_names: ClassVar[bool] = False
    """Whether the answer has names to print with `--output name`."""

    server: _Server = Field(
        Origin("http", "127.0.0.1", 8080),
        description="Where the API is: http://HOST:PORT or https://HOST:PORT.",
    )
    token_file: values.OptionalFile = Field(
        None,
        description="A file with the bearer token to send, read again for each request.",
    )
    ca_file: values.OptionalFile = Field(
        None,
        description="The CA bundle (PEM) that verifies the server; by default that of this machine.",
    )
    service_account: _ServiceAccount = Field(
        None,
        description="Send a token of this ServiceAccount of the seed, which your own kubeconfig makes for an hour and "
        "renews: with its certificate, token or login plugin, as kubectl would.",
    )
    kubeconfig: _OptionalFile = Field(
        None,
        description="Your kubeconfig for --service-account, instead of KUBECONFIG. Without that flag, its user's token "
        "is sent if there is no --token-file; then only token and tokenFile are read, and no plugin is run. "
        "--port-forward passes it to kubectl.",
    )
    context: Annotated[str | None, FlagType("NAME"), FlagOnly()] = Field(
        None,
        description="The context of the kubeconfig; by default its current one.",
    )
    port_forward: _Deployment = Field(
        None,
        description="Reach the API through kubectl port-forward to a pod of this Deployment, and to the leader's pod "
        "where only that one can answer. --server gives scheme and port, and with https the name on the certificate.",
    )
    allow_plain_http: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Send the token over plain http to other machines too.",
    )
    timeout: values.Duration = Field(
        10.0,
        description="How long an answer may take.",
    )
    output: _Output = Field(
        OutputFormat.TABLE,
        description="table and wide are for people, wide with more columns; name is the names alone, of lists and of "
        "what is begun; json and yaml show the API's answer as it is.",
    )

    def problems(self, words: Sequence[str]) -> Iterator[Mistake]:
        """Yields mistakes in the combination of flags and arguments, each of which is valid by itself."""
        yield from self.wrong_together(words)
        if self.output is OutputFormat.NAME and not self.has_names:
            named = (name for name, each in CLIENT_SETTINGS.items() if each.has_names)
            yield Mistake(None, "--output", f"name is for {', '.join(named)}")
        used = (self.kubeconfig, self.port_forward, self.service_account)
        if self.context is not None and used == (None, None, None):
            yield Mistake(None, "--context", "needs --kubeconfig")
        if self.service_account is not None and self.token_file is not None:
            yield Mistake(None, "--service-account", "does not go with --token-file")

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        """Yields those mistakes that only this command can have; subclasses override it."""
        del words
        yield from ()


def _named(words: Sequence[str], *names: str) -> Iterator[Mistake]:
    """Yields a mistake for each missing argument, and for each unexpected one."""
    for name in names[len(words) :]:
        yield Mistake(None, name, "is missing")
    yield from unexpected(words[len(names) :])


def _shoot(words: Sequence[str]) -> Iterator[Mistake]:
    """Checks that the first argument can be the namespace of a shoot."""
    for word in words[:1]:
        if not is_label(word):
            yield _unfit("NAME", "the control-plane namespace of a shoot", word)


def _service(words: Sequence[str]) -> Iterator[Mistake]:
    """Checks that the second argument can be the name of a Service."""
    for word in words[1:2]:
        if not is_service(word):
            yield _unfit("SERVICE", "the name of a Service", word)


def _unfit(name: str, what: str, word: str) -> Mistake:
    return Mistake(None, name, f'must be {what}, not "{trimmed(word, _SHOWN)}"')


class ShootsSettings(ClientSettings):
    """The flags of `dwd shoots`."""

    has_names: ClassVar[bool] = True
    shoot_word: ClassVar[int | None] = 0
    line: ClassVar[str] = "dwd shoots [NAME] [flags]"
    about: ClassVar[str] = (
        "Lists the shoots, worst first; with the control-plane namespace of one, all that is known about it."
    )
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({"o": "output", "w": "watch"})

    nodes: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Show its nodes too: which of them count, and the state of their leases. With NAME.",
    )
    history: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Show its history too, newest first. With NAME.",
    )
    watch: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Refresh every 2s until Ctrl-C.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_shoot(words), *unexpected(words[1:]))

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        given = {"nodes": self.nodes, "history": self.history}
        asked = [name for name, there in given.items() if there]
        if not words:
            yield from (Mistake(None, f"--{name}", "needs NAME") for name in asked)
        if asked and self.output is OutputFormat.NAME:
            yield Mistake(None, "--output", f"name does not go with --{asked[0]}")
        elif len(asked) > 1 and not self.output.for_people:
            message = f"{self.output} shows one answer: --nodes or --history"
            yield Mistake(None, "--output", message)


class _OneOrAllSettings(ClientSettings):
    """A command for one shoot, or for all."""

    shoot_word: ClassVar[int | None] = 0

    all: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="All shoots of the seed, instead of NAME.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_shoot(words), *unexpected(words[1:]))

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        if self.all == bool(words):
            yield Mistake(None, "NAME", "or --all must be given, not both")


class PauseSettings(_OneOrAllSettings):
    """The flags of `dwd pause`."""

    line: ClassVar[str] = "dwd pause NAME|--all --reason TEXT [flags]"
    about: ClassVar[str] = (
        "Pauses one shoot or all: probing continues, but nothing is scaled or weeded (see --scope)."
    )
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({"o": "output", "for": "duration"})

    reason: _Reason = Field(description="The reason, for others to read.")
    duration: _Duration = Field(DEFAULT_PAUSE, description="For how long, at most 24h.")
    scope: _Scope = Field(
        Scope.ALL,
        description="What to prevent: all (scaling and weeding), or only scaleDown.",
    )
    force: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Even if controllers are at 0 now, and would stay there.",
    )


class ResumeSettings(_OneOrAllSettings):
    """The flags of `dwd resume`."""

    line: ClassVar[str] = "dwd resume NAME|--all [flags]"
    about: ClassVar[str] = (
        "Ends the pause that dwd pause has made, of a shoot or of all; with --name another one, with --hold the hold "
        "of a shoot."
    )

    reason: _OptionalReason = Field(None, description="The reason, for the audit.")
    name: _OptionalName = Field(
        None,
        description="Instead, end the Pause with this name, such as one made with kubectl; dwd shoots NAME has them.",
    )
    hold: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Instead, end the hold that dwd scale set, and its scaling run if that still runs. With NAME.",
    )

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        yield from super().wrong_together(words)
        if self.hold and self.all:
            yield Mistake(None, "--hold", "is for one shoot: a hold belongs to its shoot")
        if self.hold and self.name is not None:
            yield Mistake(None, "--name", "does not go with --hold")


class _ResourceSettings(ClientSettings):
    """A command for one resource of a shoot."""

    shoot_word: ClassVar[int | None] = 0

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_named(words, "NAME", "RESOURCE"), *_shoot(words))
        for word in words[1:2]:
            kind, slash, name = word.rpartition("/")
            if not is_subdomain(name) or (slash and not kind.isalnum()):
                yield _unfit("RESOURCE", "KIND/NAME or NAME", word)


class IgnoreSettings(_ResourceSettings):
    """The flags of `dwd ignore`."""

    line: ClassVar[str] = "dwd ignore NAME RESOURCE --reason TEXT [flags]"
    about: ClassVar[str] = (
        "Excludes one resource of a shoot from scaling until dwd unignore: sets its "
        "annotation ignore-scaling. RESOURCE is KIND/NAME, or NAME if only one kind has it."
    )

    reason: _Reason = Field(description="The reason, for the audit and an Event.")
    force: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Even if it is at 0 now, and would stay there.",
    )


class UnignoreSettings(_ResourceSettings):
    """The flags of `dwd unignore`."""

    line: ClassVar[str] = "dwd unignore NAME RESOURCE [flags]"
    about: ClassVar[str] = (
        "Includes one resource of a shoot in scaling again: removes its annotation ignore-scaling. RESOURCE is "
        "KIND/NAME, or NAME if only one kind has it."
    )

    reason: _OptionalReason = Field(None, description="The reason, for the audit and an Event.")


class ScaleSettings(ClientSettings):
    """The flags of `dwd scale`."""

    has_names: ClassVar[bool] = True
    shoot_word: ClassVar[int | None] = 1
    line: ClassVar[str] = "dwd scale up|down NAME --reason TEXT [flags]"
    about: ClassVar[str] = (
        "Scales the controllers of a shoot by hand, level by level, and holds the automatic verdicts back for a while."
    )

    reason: _Reason = Field(description="The reason, for others to read.")
    hold: _Duration = Field(
        DEFAULT_HOLD,
        description="How long automatic verdicts are shown but not acted on after its end, at most 24h.",
    )
    dry_run: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Only show the plan.",
    )
    force: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Even if the shoot is not probed, or up although the leases call for down.",
    )
    if_match: Annotated[str | None, FlagType("ETAG"), FlagOnly()] = Field(
        None,
        description="Only if the resources are unchanged since the dry run that showed this ETag.",
    )
    wait: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Wait until the scaling run has ended; exit with code 7 if it did not succeed.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_named(words, "up|down", "NAME"), *_shoot(words[1:]))
        if words and words[0] not in set(Direction):
            yield _unfit("up|down", "up or down", words[0])

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        del words
        if self.dry_run and self.output is OutputFormat.NAME:
            yield Mistake(None, "--output", "a plan has no name")
        if self.dry_run and self.wait:
            yield Mistake(None, "--wait", "has nothing to wait for after --dry-run")


class ProbeSettings(ClientSettings):
    """The flags of `dwd probe`."""

    shoot_word: ClassVar[int | None] = 0
    line: ClassVar[str] = "dwd probe NAME [flags]"
    about: ClassVar[str] = "Probes a shoot now."

    reason: _OptionalReason = Field(None, description="The reason, for the audit.")

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_named(words, "NAME"), *_shoot(words))


class WeedSettings(ClientSettings):
    """The flags of `dwd weed`."""

    shoot_word: ClassVar[int | None] = 0
    line: ClassVar[str] = "dwd weed NAME SERVICE [flags]"
    about: ClassVar[str] = (
        "Restarts the pods of a shoot's control plane that depend on a service and wait in CrashLoopBackOff, by the "
        "same rules as when the service comes back."
    )

    reason: _OptionalReason = Field(None, description="The reason, for the audit.")
    force: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Even while a pause forbids it.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_named(words, "NAME", "SERVICE"), *_shoot(words), *_service(words))


class WeedersSettings(ClientSettings):
    """The flags of `dwd weeders`."""

    has_names: ClassVar[bool] = True
    shoot_word: ClassVar[int | None] = 0
    line: ClassVar[str] = "dwd weeders [NAME [SERVICE]] [flags]"
    about: ClassVar[str] = (
        "Lists the services that came back, those with the newest recovery first; with NAME those of one control "
        "plane, with SERVICE each pod that was deleted, and why others were not."
    )

    running: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Only services that have a recovery now.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_shoot(words), *_service(words), *unexpected(words[2:]))

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        if self.running and words[1:]:
            yield Mistake(None, "--running", "does not go with SERVICE")


class StatusSettings(ClientSettings):
    """The flags of `dwd status`."""

    takes_arguments: ClassVar[bool] = False
    line: ClassVar[str] = "dwd status [flags]"
    about: ClassVar[str] = (
        "Shows the process that answers: its version, who leads, how many shoots are in each state, and "
        "what needs attention: features that are off, rights that are missing, warnings."
    )


class AuditSettings(ClientSettings):
    """The flags of `dwd audit`."""

    line: ClassVar[str] = "dwd audit [NAME] [flags]"
    about: ClassVar[str] = (
        "Lists the attempts to change something through the process that answers: who, what, when, why, and the "
        "outcome, newest first; with NAME only those on one shoot."
    )

    caller: Annotated[str | None, FlagType("CALLER"), FlagOnly()] = Field(
        None,
        description="Only attempts of this caller.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_shoot(words), *unexpected(words[1:]))


class ConfigSettings(ClientSettings):
    """The flags of `dwd config`."""

    takes_arguments: ClassVar[bool] = False
    line: ClassVar[str] = "dwd config [flags]"
    about: ClassVar[str] = (
        "Shows what the process that answers is configured to do: its flags and its files, with all defaults."
    )

    log_level: _LogLevel = Field(
        None,
        description="Instead, set the level at which it logs until its next start.",
    )


class PageSettings(ClientSettings):
    """The flags of `dwd page`."""

    takes_arguments: ClassVar[bool] = False
    line: ClassVar[str] = "dwd page [flags]"
    about: ClassVar[str] = (
        "Opens the page of the watchdog in your browser, until Ctrl-C: a proxy on 127.0.0.1, for that browser alone, "
        "adds the token, follows the leader, and mends the way when it breaks."
    )

    port: Annotated[int, values.of_text(local_port), FlagType("PORT"), FlagOnly()] = Field(
        0,
        description="The port of the proxy on 127.0.0.1; 0: any that is free.",
    )
    no_browser: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Only print the address.",
    )


class EventsSettings(ClientSettings):
    """The flags of `dwd events`."""

    line: ClassVar[str] = "dwd events [NAME] [flags]"
    about: ClassVar[str] = (
        "Follows what changes, in all shoots or in one, until Ctrl-C; resumes after a broken connection."
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from (*_shoot(words), *unexpected(words[1:]))


class OperationsSettings(ClientSettings):
    """The flags of `dwd operations`."""

    has_names: ClassVar[bool] = True
    line: ClassVar[str] = "dwd operations [ID] [flags]"
    about: ClassVar[str] = (
        "Lists the scaling runs, manual and automatic ones, newest first; with the id of one, step by step."
    )
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({"o": "output", "w": "watch"})

    cancel: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Cancel it between two steps; its hold ends. With ID, and only a manual one.",
    )
    reason: _OptionalReason = Field(None, description="The reason for --cancel, for the audit.")
    watch: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Refresh every 2s until Ctrl-C, or until the scaling run with this ID has ended.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from unexpected(words[1:])
        for word in words[:1]:
            if not word or len(word) > _MAX_ID or not word.isprintable() or "/" in word:
                yield _unfit("ID", "the id of an operation", word)

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        if self.cancel and not words:
            yield Mistake(None, "--cancel", "needs ID")
        if self.cancel and self.watch:
            yield Mistake(None, "--watch", "does not go with --cancel")
        if self.reason is not None and not self.cancel:
            yield Mistake(None, "--reason", "needs --cancel")


class ApiCommandSettings(ClientSettings):
    """The flags of `dwd api`."""

    line: ClassVar[str] = "dwd api PATH [flags]"
    about: ClassVar[str] = (
        "Sends any request to the API and prints the answer. PATH is as in the API's pages, with or without "
        "/api/v1/: shoots, 'audit?limit=5', /api/v1/status."
    )
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"o": "output", "X": "method", "d": "data", "i": "include"}
    )

    method: Annotated[str | None, AfterValidator(_method), FlagType("METHOD"), FlagOnly()] = Field(
        None,
        description="GET, HEAD, POST, PUT, PATCH or DELETE; by default GET, and POST with --data.",
    )
    data: Annotated[str | None, FlagType("JSON"), FlagOnly()] = Field(
        None,
        description="The body: JSON, @FILE for a file, or - for standard input.",
    )
    if_match: Annotated[str | None, FlagType("ETAG"), FlagOnly()] = Field(
        None,
        description="The header If-Match.",
    )
    include: _Switch = Field(
        False,  # noqa: FBT003 - the default of a field
        description="Print status and headers before the answer.",
    )

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        yield from _named(words, "PATH")
        for word in words[:1]:
            if not _PATH.fullmatch(word):
                yield _unfit("PATH", "a path of the API, such as shoots", word)

    def wrong_together(self, words: Sequence[str]) -> Iterator[Mistake]:
        del words
        if self.data is not None and self.method in {"GET", "HEAD"}:
            yield Mistake(None, "--data", f"does not go with --method {self.method}")
        if self.output is OutputFormat.WIDE:
            yield Mistake(None, "--output", "wide is for tables, which dwd api does not make")


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
