"""Where settings come from besides flags: the environment that was handed in, and nothing else.

Every flag is an environment variable too: `--kube-api-qps` is `DWD_KUBE_API_QPS`; the flag wins.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENV_PREFIX: Final = "DWD_"

_NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})
_environment: ContextVar[Mapping[str, str]] = ContextVar("environment", default=_NO_ENVIRONMENT)


def environment_name(field: str) -> str:
    """The environment variable of a field."""
    return ENV_PREFIX + field.upper()


@contextmanager
def environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Settings made in this context read `environ`; those made elsewhere read no environment at all."""
    token = _environment.set(environ)
    try:
        yield
    finally:
        _environment.reset(token)


class _Environment(PydanticBaseSettingsSource):
    """The flat variables of `environment`; an empty one counts as absent."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - pydantic's signature
        return _environment.get().get(environment_name(field_name)) or None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}


class CommandSettings(BaseSettings):
    """The flags of a command."""

    model_config = SettingsConfigDict(frozen=True)

    takes_files: ClassVar[bool] = False
    """Whether arguments that are no flags are files to work on, instead of mistakes."""

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
