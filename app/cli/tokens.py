"""The bearer token: from a file, from the user in a kubeconfig, or made by kubectl for a ServiceAccount.

A login plugin that a kubeconfig names is never run (threat T28), unless `--service-account` is given: then kubectl is.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from app.cli.kubectl import Kubectl, KubectlFailed
from app.cli.problems import CommandFailed, Exit
from app.core.clock import Clock
from app.core.config.client_settings import ClientSettings
from app.core.config.values import NamespacedName
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.callers import AUDIENCE, CLAIMED_USER

T = TypeVar("T")

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16000}")
_MAX_FILE: Final = 1 << 20
# Most parts of the kubeconfig's YAML; the operator's own may have hundreds of contexts.
_MAX_PARTS: Final = 100_000
_SHOWN: Final = 100
_MAKE_ONE: Final = (
    "give --service-account NAMESPACE/NAME, or a token: kubectl create token SERVICEACCOUNT --audience "
    "dependency-watchdog > FILE, and --token-file FILE"
)


class TokenSource(ABC):
    """A source of the bearer token."""

    @abstractmethod
    async def headers(self) -> Mapping[str, str]:
        """The headers that identify the caller; none to send no token.

        Raises:
            CommandFailed: The token cannot be read, or made.
        """

    def rejected(self) -> bool:
        """Take note that the server does not know the token (401); returns whether the next one may be another."""
        return False


@dataclass(frozen=True, slots=True)
class NoToken(TokenSource):
    """Sends no token, as for a demo."""

    why: str = f"no token was sent; {_MAKE_ONE}"
    """A note for the error if the server wants one."""

    async def headers(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True, repr=False)
class InlineToken(TokenSource):
    """A token from a kubeconfig."""

    value: str

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.value}"}


@dataclass(frozen=True, slots=True)
class TokenFile(TokenSource):
    """A token file, which is read again for each request, as tokens are renewed."""

    path: Path

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {await asyncio.to_thread(self.read)}"}

    def read(self) -> str:
        """Read the token; blocks.

        Raises:
            CommandFailed: The file cannot be read, or holds no token.
        """
        try:
            with self.path.open("rb") as file:
                text = file.read(_MAX_FILE).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            message = f"{self.path}: the token cannot be read: {reason}"
            raise CommandFailed(Exit.USAGE, message) from error
        if not _TOKEN.fullmatch(text):
            raise CommandFailed(Exit.USAGE, f"{self.path}: holds no token")
        return text


def token_source(settings: ClientSettings, environ: Mapping[str, str]) -> TokenSource:
    """The source of the token that the flags determine; blocks.

    Raises:
        CommandFailed: `--token-file` cannot be read, or holds no token.
        ConfigurationError: `--kubeconfig` has no token that can be used, or `--service-account` finds no kubectl.
    """
    if settings.service_account is not None:
        kubectl = Kubectl.chosen(settings, environ, "--service-account")
        return MintedTokens(settings.service_account, kubectl, Clock.system(), settings.timeout)
    file, path = settings.token_file, settings.kubeconfig
    if file is None and path is not None:
        name, user = _user(path, settings.context)
        token, written = user.get("token"), user.get("tokenFile")
        if isinstance(written, str) and written:  # kubectl, too, prefers it to the inline token
            file = path.parent / written
        elif isinstance(token, str) and _TOKEN.fullmatch(token):
            return InlineToken(token)
        else:
            why = f"user {name} has no token"
            for plugin in ("exec", "auth-provider"):
                if plugin in user:
                    why = f"user {name} logs in through a plugin ({plugin}), which is never run"
                    break
            if settings.port_forward is None:
                raise _wrong(path, f"{why}; {_MAKE_ONE}")
            # The kubeconfig may be meant for kubectl only, and the server may want no token.
            return NoToken(f"no token was sent: {why}; {_MAKE_ONE}")
    if file is None:
        return NoToken()
    source = TokenFile(file)
    token = source.read()
    return source if file.is_file() else InlineToken(token)  # a pipe can be read just once


def _user(path: Path, context: str | None) -> tuple[str, dict[str, Any]]:
    """The user that a kubeconfig has for a context, by default its current one: the name to show, and the entry."""
    from app.core.kube import kubeconfig  # noqa: PLC0415 - for this flag alone

    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
        config = kubeconfig.load(content, max_bytes=_MAX_FILE, max_events=_MAX_PARTS)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    except kubeconfig.YamlRefused as error:
        raise _wrong(path, f"is not a kubeconfig: {error}") from error
    if not isinstance(config, dict):
        raise _wrong(path, "is not a kubeconfig")

    def entry(kind: str, name: str) -> dict[str, Any]:
        listed = config.get(f"{kind}s")
        for each in listed if isinstance(listed, list) else []:
            if isinstance(each, dict) and each.get("name") == name:
                found = each.get(kind)
                if isinstance(found, dict):
                    return found
        raise _wrong(path, f"has no {kind} {trimmed(name, _SHOWN)}")

    name = config.get("current-context") if context is None else context
    if not isinstance(name, str) or not name:
        raise _wrong(path, "has no current context; choose one with --context")
    user = entry("context", name).get("user")
    if not isinstance(user, str):
        raise _wrong(path, f"context {trimmed(name, _SHOWN)} names no user")
    return trimmed(user, _SHOWN), entry("user", user)


def _wrong(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError(str(path), [Mistake(None, "--kubeconfig", message)])


# Tokens of a ServiceAccount.


LIFETIME: Final = 3_600
"""Seconds that a token is asked for. A stream of events ends with the token that it was opened with."""
_RENEWED_AT: Final = 0.75
"""The part of a token's life after which the next one is made."""
_TRIED_AGAIN: Final = 10.0
"""Seconds between attempts to renew a token that still is good."""
_NEVER: Final = float("-inf")


class MintedTokens(TokenSource):
    """Short-lived tokens of one ServiceAccount, which the operator's own kubectl makes: the next one before each ends.

    People log in to a seed by a client certificate or through a login plugin, and neither can be shown to the API of
    the watchdog. So kubectl makes a token by a TokenRequest, for the audience of the API alone and for an hour.

    The account says nothing of the person. So the seed is asked, with the operator's own credentials, by what name it
    knows them (SelfSubjectReview), and that name goes along with each request. It is a claim: the watchdog shows it
    beside the account in the audit, and trusts it in nothing.

    Args:
        account: The ServiceAccount.
        kubectl: The operator's access to the seed.
        clock: Tells how old a token is.
        timeout: Seconds for one answer of the seed.
    """

    def __init__(
        self, account: NamespacedName, kubectl: Kubectl, clock: Clock, timeout: float
    ) -> None:
        self._account, self._kubectl = account, kubectl
        self._clock, self._timeout = clock, timeout
        self._token = ""
        self._person: str | None = None
        # On our own time line: the clocks of this machine and of the seed need not agree.
        self._made = self._renewed = self._ends = _NEVER
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """The token, and the person as the seed knows them.

        Raises:
            CommandFailed: The seed gives no token, and there is none that is still good.
        """
        async with self._lock:
            if self._clock.now() >= self._renewed:
                await self._renew()
        claim = {} if self._person is None else {CLAIMED_USER: quote(self._person, safe="@:._-")}
        return {"Authorization": f"Bearer {self._token}", **claim}

    def rejected(self) -> bool:
        """Drop a token that the server does not know, as after the machine has slept; whether another may do better."""
        if self._clock.now() - self._made < _TRIED_AGAIN:
            return False
        self._renewed = self._ends = _NEVER
        return True

    async def _renew(self) -> None:
        """Make a token; as long as that fails, one that is still good is used."""
        now = self._clock.now()
        try:
            if self._person is None:
                self._person = await self._who()
            self._token, lives = await self._mint()
        except CommandFailed as error:
            if now < self._ends:
                self._renewed = min(now + _TRIED_AGAIN, self._ends)
                return
            if isinstance(error, KubectlFailed):
                raise self._explained(error) from error
            raise
        self._made = self._clock.now()
        self._renewed, self._ends = self._made + lives * _RENEWED_AT, self._made + lives

    async def _who(self) -> str | None:
        """The name by which the seed knows the operator; None if it does not say (before Kubernetes 1.28)."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            said = await self._kubectl.create(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, self._timeout
            )
        except KubectlFailed as refused:
            if refused.reason in {None, "Unauthorized"}:
                raise
            return None
        return _member(said, str, "status", "userInfo", "username")

    async def _mint(self) -> tuple[str, int]:
        """A token for the API of the watchdog, and the seconds that it lives."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": LIFETIME},
        }
        namespace, name = self._account.namespace, self._account.name
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        said = await self._kubectl.create(path, body, self._timeout)
        token = _member(said, str, "status", "token")
        if token is None:
            raise KubectlFailed("the answer is no TokenRequest")
        lives = _member(said, int, "spec", "expirationSeconds")
        return token, LIFETIME if lives is None else lives

    def _explained(self, refused: KubectlFailed) -> CommandFailed:
        who, account, said = self._person or "you", self._account, refused.said
        match refused.reason:
            case "Unauthorized":
                note = "does kubectl auth whoami work?"
                return CommandFailed(
                    Exit.NOT_ALLOWED, f"the seed does not know you: {said}", [note]
                )
            case "Forbidden":
                needed = "create serviceaccounts/token, with this resourceName"
                note = f"that takes the right to {needed}: docs/authentication.md"
                message = f"{who} may not make tokens of the ServiceAccount {account}: {said}"
                return CommandFailed(Exit.NOT_ALLOWED, message, [note])
            case "NotFound":
                note = "the chart makes some with api.auth.serviceAccounts.create=true"
                message = f"there is no ServiceAccount {account}: {said}"
                return CommandFailed(Exit.NOT_FOUND, message, [note])
            case _:
                message = f"the seed gives no token of the ServiceAccount {account}: {said}"
                return CommandFailed(Exit.FAILED, message, passing=refused.passing)


def _member(said: bytes, kind: type[T], *names: str) -> T | None:
    """The member of JSON below these names; None where there is none of this type."""
    try:
        found: Any = json.loads(said)
        for name in names:
            found = found[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, kind) else None
