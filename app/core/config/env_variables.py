"""Reads settings from environment variables, and only from the mapping that was passed in.

Neither the process's own environment nor a `.env` file is read, so tests and commands control every input.

Every flag has an environment variable: `--kube-api-qps` is `DWD_KUBE_API_QPS`; the flag takes precedence. The
exceptions are flags that request an action (`--force`, `--all`) or say who requests it (`FlagOnly`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.core.errors import Mistake, trimmed

ENV_PREFIX: Final = "DWD_"
_SHOWN: Final = 60

_NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})
_environment: ContextVar[Mapping[str, str]] = ContextVar("environment", default=_NO_ENVIRONMENT)


@dataclass(frozen=True, slots=True)
class AlsoFrom:
    """Names a fallback variable for a field that neither its flag nor its `DWD_` variable sets."""

    variable: str


def environment_name(field: str) -> str:
    """Returns the name of a field's environment variable."""
    return ENV_PREFIX + field.upper()


def variable(name: str) -> str | None:
    """Returns any variable of the current `environment`; None if it is missing or empty."""
    return _environment.get().get(name) or None


@dataclass(frozen=True, slots=True)
class FlagOnly:
    """Marks a field that only its flag sets: an action must be requested on the command line itself."""


def flag_only(field: FieldInfo) -> bool:
    """Returns whether a field is marked with `FlagOnly`."""
    return FlagOnly() in field.metadata


def variable_of(name: str, field: FieldInfo, environ: Mapping[str, str]) -> str | None:
    """Returns the variable in `environ` that sets the field `name`; None if there is none or it is empty."""
    if flag_only(field):
        return None
    others = [each.variable for each in field.metadata if isinstance(each, AlsoFrom)]
    return next((each for each in (environment_name(name), *others) if environ.get(each)), None)


@contextmanager
def environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Makes settings created in this context read `environ`; settings created elsewhere read no environment."""
    token = _environment.set(environ)
    try:
        yield
    finally:
        _environment.reset(token)


def unexpected(words: Iterable[str]) -> Iterator[Mistake]:
    """Yields a mistake for each unexpected positional argument."""
    message = "unexpected argument; a flag's value follows its flag, a boolean's after ="
    for word in words:
        yield Mistake(None, trimmed(word, _SHOWN), message)


class _Environment(PydanticBaseSettingsSource):
    """The settings source for the variables of `environment`; an empty variable counts as absent."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        environ = _environment.get()
        found = variable_of(field_name, field, environ)
        return None if found is None else environ[found], field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}


class CommandSettings(BaseSettings):
    """Base class for the flags of a command."""

    model_config = SettingsConfigDict(frozen=True)

    takes_arguments: ClassVar[bool] = False
    """Whether the command takes positional arguments; otherwise each of them is a mistake."""
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Short names of flags, such as `o` for `output`."""

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        """Yields the mistakes in the positional arguments."""
        if not cls.takes_arguments:
            yield from unexpected(words)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Uses flags, then `environment`; no files, and nothing from the process's own environment."""
        del env_settings, dotenv_settings, file_secret_settings
        return init_settings, _Environment(settings_cls)
