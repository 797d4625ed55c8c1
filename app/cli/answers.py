"""Reads the API's JSON into its own schemas (`app.api.schemas`), as leniently as the client of another version must.

A server may be newer or older than this program. So a lenient twin of each schema is made when it is first needed: a
field that is missing is null, empty or 0, an unknown word of an enum stays that word, unknown fields are ignored.
"""

from enum import Enum
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from app.api import schemas
from app.cli.problems import CommandFailed, Exit

Schema = TypeVar("Schema", bound=BaseModel)


class Page(schemas.Schema):
    """A page of any list."""

    items: list[Any]
    metadata: schemas.ListMetadata


_CONFIG: Final = ConfigDict(frozen=True, defer_build=True)
_REQUIRED: Final[dict[type[BaseModel], str]] = {
    schemas.Shoot: "namespace",
    schemas.Node: "name",
    schemas.Operation: "id",
    Page: "items",
}
"""What is no answer of this API without its name."""
_UNSAID: Final = {"verified": True, "done": True, "counted": True, "times": 1, "ready": None}
"""What an older server means that does not say it, where that is not the empty value."""


def decode(body: bytes) -> Any:  # noqa: ANN401 - JSON, whatever it is
    """Decode a body.

    Raises:
        CommandFailed: The body is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CommandFailed(Exit.FAILED, f"the answer is not JSON: {error}") from error


def of(kind: type[Schema], data: object) -> Schema:
    """Convert decoded JSON to the lenient twin of a schema, whose enums are strings.

    Raises:
        CommandFailed: A value has a wrong type, so that the answer is not one of this API.
    """
    try:
        return cast("Schema", _lenient(kind).model_validate(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or kind.__name__
        raise foreign(f"{place}: {first['msg']}") from error


def foreign(why: str) -> CommandFailed:
    """The error for JSON that is no answer of this API."""
    return CommandFailed(Exit.FAILED, f"the answer is not one of this API: {why}")


@cache
def _lenient(schema: type[BaseModel]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        kind = _accepted(field.annotation)
        if name == _REQUIRED.get(schema):
            fields[name] = (kind, Field(alias=field.alias))
        else:
            optional = kind is Any or type(None) in get_args(kind)
            empty = None if optional else (get_origin(kind) or kind)()  # which pydantic copies
            fields[name] = (kind, Field(default=_UNSAID.get(name, empty), alias=field.alias))
    return create_model(schema.__name__, __config__=_CONFIG, **fields)


def _accepted(kind: Any) -> Any:  # noqa: ANN401 - an annotation
    """The annotation with lenient schemas instead of the API's, and strings instead of enums."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _accepted(arguments[0])
    if arguments:
        found = tuple(_accepted(each) for each in arguments)
        return reduce(or_, found) if origin in {Union, UnionType} else origin[found]
    if not isinstance(kind, type):
        return kind
    return (
        _lenient(kind) if issubclass(kind, BaseModel) else str if issubclass(kind, Enum) else kind
    )
