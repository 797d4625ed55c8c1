"""The bearer token: from a file, or from the user in a kubeconfig, whose login plugins are never run (threat T28).

Tokens of a ServiceAccount, which the operator's kubectl makes, are in `service_account`.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.cli.problems import CommandFailed, Exit
from app.core.config.client_settings import ClientSettings
from app.core.errors import ConfigurationError, Mistake, trimmed

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


def token_source(settings: ClientSettings) -> TokenSource:
    """The source of the token that the flags determine; blocks.

    Raises:
        CommandFailed: `--token-file` cannot be read, or holds no token.
        ConfigurationError: `--kubeconfig` has no token that can be used.
    """
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
