"""Where settings come from besides flags: the environment that was handed in, and nothing else.

Every flag is an environment variable too: `--kube-api-qps` is `DWD_KUBE_API_QPS`; the flag wins.  Only what asks for
something to be done (`--force`, `--all`), or says who asks, is a flag and nothing else.
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
    """A variable of another name, for a field that neither a flag nor a variable of ours sets."""

    variable: str


def environment_name(field: str) -> str:
    """The environment variable of a field."""
    return ENV_PREFIX + field.upper()


def variable(name: str) -> str | None:
    """A variable of the environment that settings are made in, whatever its name."""
    return _environment.get().get(name) or None


@dataclass(frozen=True, slots=True)
class FlagOnly:
    """Marks a field that no environment variable sets: what is asked for is said where it is asked."""


def flag_only(field: FieldInfo) -> bool:
    """Whether no environment variable sets it."""
    return FlagOnly() in field.metadata


def variable_of(name: str, field: FieldInfo, environ: Mapping[str, str]) -> str | None:
    """The variable of `environ` that says what the field `name` is; None: none, or an empty one, does."""
    if flag_only(field):
        return None
    others = [each.variable for each in field.metadata if isinstance(each, AlsoFrom)]
    return next((each for each in (environment_name(name), *others) if environ.get(each)), None)


@contextmanager
def environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Settings made in this context read `environ`; those made elsewhere read no environment at all."""
    token = _environment.set(environ)
    try:
        yield
    finally:
        _environment.reset(token)


def unexpected(words: Iterable[str]) -> Iterator[Mistake]:
    """A mistake for each word that nobody asked for."""
    message = "unexpected argument; a flag's value follows its flag, a boolean's after ="
    for word in words:
        yield Mistake(None, trimmed(word, _SHOWN), message)


class _Environment(PydanticBaseSettingsSource):
    """The flat variables of `environment`; an empty one counts as absent."""

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
    """The flags of a command."""

    model_config = SettingsConfigDict(frozen=True)

    takes_arguments: ClassVar[bool] = False
    """Whether words that are no flags are what to work on, instead of mistakes."""
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Other names of flags: `o` of `output`."""

    @classmethod
    def wrong_words(cls, words: Sequence[str]) -> Iterator[Mistake]:
        """What is wrong with the words that are no flags."""
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
        """Flags, then the environment that was handed in; no file, and nothing of the process's own."""
        del env_settings, dotenv_settings, file_secret_settings
        return init_settings, _Environment(settings_cls)
