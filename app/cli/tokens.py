"""Where the bearer token comes from: a file, or the user of a kubeconfig; a plugin of one is never run (threat T1)."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from app.cli.exits import CommandFailed, Exit
from app.core.config.client_settings import ClientSettings
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.kube import kubeyaml

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16000}")
_MAX_FILE: Final = 1 << 20
_MAX_PARTS: Final = 100_000
"""Of the YAML of one's own kubeconfig, which may have hundreds of contexts."""
_SHOWN: Final = 100
_MAKE_ONE: Final = (
    "make a token: kubectl create token SERVICEACCOUNT --audience dependency-watchdog > FILE, and give --token-file "
    "FILE"
)


class TokenSource(Protocol):
    """Gives the token."""

    async def token(self) -> str | None:
        """The token as it is now; None where none is sent.

        Raises:
            CommandFailed: it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoToken:
    """Nobody in particular asks."""

    why: str = f"no token was sent; {_MAKE_ONE}"
    """What to say where the server wants one."""

    async def token(self) -> str | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True, repr=False)
class InlineToken:
    """A token that a kubeconfig holds."""

    value: str

    async def token(self) -> str | None:
        """The token."""
        return self.value


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file, read again for each request: tokens are renewed."""

    path: Path

    async def token(self) -> str | None:
        """What is in it."""
        return await asyncio.to_thread(self.read)

    def read(self) -> str:
        """The same.

        Raises:
            CommandFailed: it cannot be read, or holds no token.
        """
        try:
            with self.path.open("rb") as file:
                text = file.read(_MAX_FILE).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            message = f"{self.path}: the token cannot be read: {reason}"
            raise CommandFailed(Exit.USAGE, message) from error
        if not _TOKEN.fullmatch(text):
            raise CommandFailed(Exit.USAGE, f"{self.path}: holds no token")
        return text


def token_source(settings: ClientSettings) -> TokenSource:
    """Where the token comes from, by the flags.

    Raises:
        CommandFailed: there is a token file, and it holds none.
        ConfigurationError: there is a kubeconfig, and it has no token that can be used.
    """
    if settings.token_file is not None:
        source = TokenFile(settings.token_file)
        source.read()
        return source
    if settings.kubeconfig is None:
        return NoToken()
    try:
        return _of_kubeconfig(settings.kubeconfig, settings.context)
    except _NoUsableToken as error:
        if (
            settings.port_forward is not None
        ):  # it is there for kubectl; the server may want no token
            return NoToken(f"no token was sent: {error}; {_MAKE_ONE}")
        message = f"{error}; {_MAKE_ONE}"
        raise _wrong(settings.kubeconfig, message) from error


class _NoUsableToken(Exception):
    """The user of a kubeconfig logs in some other way."""


def _of_kubeconfig(path: Path, context: str | None) -> TokenSource:
    config = _read(path)
    name = config.get("current-context") if context is None else context
    if not isinstance(name, str) or not name:
        raise _wrong(path, "has no current context; say which by --context")
    chosen = _entry(path, config, "context", name)
    user = chosen.get("user")
    if not isinstance(user, str):
        raise _wrong(path, f"context {trimmed(name, _SHOWN)} names no user")
    return _of_user(path, trimmed(user, _SHOWN), _entry(path, config, "user", user))


def _of_user(path: Path, name: str, user: dict[str, Any]) -> TokenSource:
    token, file = user.get("token"), user.get("tokenFile")
    if isinstance(file, str) and file:  # as for kubectl, it goes before the token
        source = TokenFile(path.parent / file)
        source.read()
        return source
    if isinstance(token, str) and _TOKEN.fullmatch(token):
        return InlineToken(token)
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            raise _NoUsableToken(
                f"user {name} logs in through a plugin ({plugin}), which is never run"
            )
    raise _NoUsableToken(f"user {name} has no token")


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
        found = kubeyaml.load(content, max_bytes=_MAX_FILE, max_events=_MAX_PARTS)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    except kubeyaml.YamlRefused as error:
        raise _wrong(path, f"is no kubeconfig: {error}") from error
    if not isinstance(found, dict):
        raise _wrong(path, "is no kubeconfig")
    return found


def _entry(path: Path, config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The context or user of this name."""
    listed = config.get(f"{kind}s")
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(kind), dict):
            found: dict[str, Any] = each[kind]
            return found
    raise _wrong(path, f"has no {kind} {trimmed(name, _SHOWN)}")


def _wrong(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError(str(path), [Mistake(None, "--kubeconfig", message)])
