"""The prober file: bytes of a path → text → policy, with all mistakes at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.config.findings import Findings
from app.core.config.proberfile import read_policy
from app.core.config.yamlnodes import Kind, compose, kind
from app.core.errors import ConfigurationError, Mistake
from app.core.model.policy import ConfigWarning, ProberPolicy

MAX_BYTES: Final = 1024 * 1024
"""As much as a ConfigMap can hold."""

_WEEDER_KEYS: Final = frozenset({"servicesanddependantselectors", "watchduration"})


@dataclass(frozen=True, slots=True)
class LoadedProber:
    """A prober file that is in order."""

    policy: ProberPolicy
    warnings: tuple[ConfigWarning, ...] = ()


def read_prober_file(path: Path, *, strict: bool) -> LoadedProber:
    """Reads the prober file at `path`; `strict` makes unknown keys mistakes instead of warnings.

    Raises:
        ConfigurationError: it cannot be read, or anything in it is wrong; it has all mistakes.
    """
    return parse_prober(read_text(path), str(path), strict=strict)


def parse_prober(text: str, source: str, *, strict: bool) -> LoadedProber:
    """The same for a text; `source` is what errors call it.

    Raises:
        ConfigurationError: anything in it is wrong; it has all mistakes.
    """
    findings = Findings(source, strict=strict)
    policy = read_policy(compose(text, source), findings)
    return LoadedProber(policy, findings.warnings())


def is_weeder(text: str, source: str) -> bool:
    """Whether `text` is a weeder file: one with keys that only those have.

    Raises:
        ConfigurationError: it is not one YAML document.
    """
    root = compose(text, source)
    if root is None or kind(root) is not Kind.MAPPING:
        return False
    return any(str(key.value).lower() in _WEEDER_KEYS for key, _ in root.value)


def read_text(path: Path) -> str:
    """The text of a file of at most 1 MiB in UTF-8.

    Raises:
        ConfigurationError: it is not there, may not be read, or is no such text.
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
