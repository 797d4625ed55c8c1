"""Reads the configuration files: path to text to policy, with all mistakes at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from app.core.config.fields import FileLocation, Findings, Keys, Naming, entries
from app.core.config.flag_values import FileKind
from app.core.config.prober_file import PROBER_KEYS, read_policy
from app.core.config.weeder_file import WEEDER_KEYS, read_weeder_policy
from app.core.config.yaml_nodes import NodeKind, compose, kind, line_of
from app.core.errors import ConfigurationError, Mistake
from app.core.model.policy import ConfigWarning, ProberPolicy
from app.core.model.weeding import WeederPolicy

MAX_BYTES: Final = 1024 * 1024
"""The maximum size of a ConfigMap."""

_KEYS: Final = {FileKind.PROBER: PROBER_KEYS, FileKind.WEEDER: WEEDER_KEYS}
_WEEDER_SIGNS: Final = ("watchDuration", "servicesAndDependantSelectors")


@dataclass(frozen=True, slots=True)
class LoadedProber:
    """A valid prober file."""

    policy: ProberPolicy
    warnings: tuple[ConfigWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedWeeder:
    """A valid weeder file."""

    policy: WeederPolicy
    warnings: tuple[ConfigWarning, ...] = ()


def read_prober_file(path: Path, *, strict: bool, allow_exec: bool = False) -> LoadedProber:
    """Reads the prober file at `path`.

    Args:
        path: Where it is.
        strict: Whether unknown keys are mistakes instead of warnings.
        allow_exec: Whether it may have exec probes (`--allow-exec`).

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    return parse_prober(read_text(path), str(path), strict=strict, allow_exec=allow_exec)


def parse_prober(text: str, source: str, *, strict: bool, allow_exec: bool = False) -> LoadedProber:
    """The same for a text; `source` is what errors call it.

    Raises:
        ConfigurationError: anything in it is wrong; it has all mistakes.
    """
    findings = Findings(source, strict=strict)
    root = _root(text, source, FileKind.PROBER)
    policy = read_policy(root, findings, allow_exec=allow_exec)
    return LoadedProber(policy, findings.warnings())


def read_weeder_file(path: Path, *, strict: bool) -> LoadedWeeder:
    """Reads the weeder file at `path`; `strict` makes unknown keys mistakes instead of warnings.

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    return parse_weeder(read_text(path), str(path), strict=strict)


def parse_weeder(text: str, source: str, *, strict: bool) -> LoadedWeeder:
    """The same for a text; `source` is what errors call it.

    Raises:
        ConfigurationError: anything in it is wrong; it has all mistakes.
    """
    findings = Findings(source, strict=strict)
    policy = read_weeder_policy(_root(text, source, FileKind.WEEDER), findings)
    return LoadedWeeder(policy, findings.warnings())


def file_kind(text: str, source: str) -> FileKind:
    """Returns which file `text` is: a weeder file if it has keys of one, otherwise a prober file.

    Raises:
        ConfigurationError: it is not a single YAML document.
    """
    root = compose(text, source)
    return FileKind.WEEDER if _given(root, Keys(_WEEDER_SIGNS)) else FileKind.PROBER


def _root(text: str, source: str, wanted: FileKind) -> yaml.Node | None:
    """Parses the document; refuses a file of the other kind, whose mistakes would be a long list."""
    root = compose(text, source)
    (other,) = set(FileKind) - {wanted}
    strange = _given(root, _KEYS[other])
    if root is not None and strange and not _given(root, _KEYS[wanted]):
        message = f"is a {other} file (it has {strange[0]}), not a {wanted} file"
        raise ConfigurationError(source, [Mistake(line_of(root), "", message)])
    return root


def _given(root: yaml.Node | None, keys: Keys) -> list[str]:
    """Returns which of the keys a file has, apart from obsolete ones."""
    if root is None or kind(root) is not NodeKind.MAPPING:
        return []
    nowhere = FileLocation("", None)
    naming = Naming(nowhere, str.lower, lambda _key, _line: nowhere)
    found = entries(root, naming, Findings("", strict=False))
    given = {name for name, each in found.items() if kind(each.node) is not NodeKind.NULL}
    return [key for key in keys.known if key.lower() in given]


def read_text(path: Path) -> str:
    """Reads a text file of at most 1 MiB in UTF-8.

    Raises:
        ConfigurationError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(path, f"cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise _unreadable(path, f"is larger than {MAX_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"is not UTF-8 text (byte {error.start})") from error


def _unreadable(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError(str(path), [Mistake(None, "", message)])
