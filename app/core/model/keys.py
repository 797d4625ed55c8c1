"""What the keys of the prober and weeder file may hold: the types of which the policies are made.

A policy is a frozen record, and the only declaration of its keys: name, type, default, limits and purpose. pydantic
reads the annotations where a file is loaded (`core.config.yaml_file`) and where the API shows what is in force. A
record that code makes is not validated, and costs no more than any other.

A validator raises ValueError with what is allowed ("must be …"); what was found is added by whoever has the file.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Strict,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from app.core.model.instants import EXAMPLE, format_duration, parse_duration
from app.core.model.names import (
    LabelSelector,
    Operator,
    Requirement,
    is_api_version,
    is_kind,
    is_label,
    is_label_key,
    is_label_value,
    is_service,
    is_subdomain,
)
from app.core.model.workloads import ResourceRef

T = TypeVar("T")
F = TypeVar("F")

KEYS: Final = ConfigDict(alias_generator=to_camel, json_schema_serialization_defaults_required=True)
"""How pydantic names the keys of a record: as its fields, in camelCase, unless one has an alias."""

MAX_WHOLE: Final = 2**31 - 1
NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Needed:
    """Says that a file must have a key, though code may leave it out."""


class Complete(ValueError):
    """A mistake whose message says all: what was found is not added, as it says nothing or may be a secret."""


class Secretive(ValueError):
    """A mistake of which only the type of what was found may be added."""


class Unquoted(str):
    """Text that looks like a number: YAML 1.1 reads `1e-1` as text, Kubernetes as a number."""

    __slots__ = ()


def checked(check: Callable[[Any], bool], allowed: str) -> AfterValidator:
    """Creates a validator that refuses values for which `check` is false."""

    def validate(value: object) -> object:
        if not check(value):
            raise ValueError(f"must be {allowed}")
        return value

    return AfterValidator(validate)


# Numbers and durations.


def whole(least: int, most: int = MAX_WHOLE) -> AfterValidator:
    """Creates a validator of whole numbers from `least` to `most`."""
    return checked(lambda value: least <= value <= most, f"from {least} to {most}")


def _number(value: object) -> object:
    return float(value) if isinstance(value, Unquoted) else value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be {EXAMPLE}")  # noqa: TRY004 - a mistake of the file, as any other
    return parse_duration(str(value))


Switch = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), whole(1)]
CountOrZero = Annotated[int, Strict(), whole(0)]
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False), BeforeValidator(_number)]
Share = Annotated[_Number, checked(lambda it: 0 <= it <= 1, "from 0 to 1")]
PositiveShare = Annotated[_Number, checked(lambda it: 0 < it <= 1, "above 0 and at most 1")]
_Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "description": "A Go duration.", "examples": ["30s"]}),
]
DurationOrZero = Annotated[_Seconds, checked(lambda it: it >= 0, "0s or more")]
Duration = Annotated[_Seconds, checked(lambda it: it > 0, "above 0s")]


def at_most(longest: float) -> AfterValidator:
    """Creates a validator that refuses durations above `longest`."""
    return checked(lambda it: it <= longest, f"at most {format_duration(longest)}")


# Text.


@dataclass(frozen=True, slots=True)
class Secret:
    """Says that a text may be a secret, so that no message shows what was found."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def validate(value: object) -> object:
            if not isinstance(value, str):
                raise Secretive("must be a string")
            return value

        return core_schema.no_info_before_validator_function(validate, handler(source))


def _not_blank(text: str) -> str:
    if not text.strip():
        raise Complete("must not be blank")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
ObjectName = Annotated[
    Text,
    checked(is_subdomain, "a name as Kubernetes allows it (lower case letters, digits, - and .)"),
]
ContainerName = Annotated[Text, checked(is_label, "the name of a container")]
ServiceName = Annotated[
    str,
    checked(
        is_service,
        "the name of a Service (at most 63 lower case letters, digits and -, a letter first and no - last)",
    ),
]
LabelKey = Annotated[
    str, checked(is_label_key, "the key of a label, such as role or gardener.cloud/role")
]
LabelValue = Annotated[
    str,
    checked(
        is_label_value,
        "the value of a label (at most 63 letters, digits, -, _ and ., a letter or digit at both ends)",
    ),
]


# Records whose form in a file is another one than in the program.


@dataclass(frozen=True, slots=True)
class WrittenAs(Generic[T, F]):
    """Says that a file has a value in the form of another record."""

    form: type[F]
    read: Callable[[F], T]
    write: Callable[[T], F]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        form = handler.generate_schema(self.form)
        written = core_schema.plain_serializer_function_ser_schema(self.write, return_schema=form)
        return core_schema.no_info_after_validator_function(self.read, form, serialization=written)


@dataclass(frozen=True, slots=True)
class Ref:
    """The reference of a dependent."""

    __pydantic_config__: ClassVar = KEYS

    kind: Annotated[Text, checked(is_kind, "a kind in CamelCase, such as Deployment")]
    """Its kind."""
    name: ObjectName
    """Its name, the same in each control-plane namespace."""
    api_version: Annotated[Text, checked(is_api_version, "v1 or group/version, such as apps/v1")]
    """Its group and version."""


Reference = Annotated[
    ResourceRef,
    WrittenAs(
        Ref,
        lambda it: ResourceRef(it.api_version, it.kind, it.name),
        lambda it: Ref(it.kind, it.name, it.api_version),
    ),
]


def _fit_operator(values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    compares = info.data.get("operator")
    if compares in (Operator.IN, Operator.NOT_IN) and not values:
        raise Complete(f"must have at least one value with the operator {compares}")
    if compares in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
        raise Complete(f"must be absent or empty with the operator {compares}")
    return values


@dataclass(frozen=True, slots=True)
class MatchExpression:
    """A requirement for a label; `values` is empty with Exists and DoesNotExist."""

    __pydantic_config__: ClassVar = KEYS
    CLOSED: ClassVar = True

    key: LabelKey
    """The label that it is about."""
    operator: Operator
    """How it compares; a pod without the label meets `NotIn`."""
    values: Annotated[
        tuple[LabelValue, ...], Field(validate_default=True), AfterValidator(_fit_operator)
    ] = ()
    """What it compares with: at least one with `In` and `NotIn`, none with the others."""

    def requirement(self) -> Requirement:
        return Requirement(self.key, self.operator, frozenset(self.values))


@dataclass(frozen=True, slots=True)
class PodSelector:
    """A LabelSelector, refused where Kubernetes would refuse it."""

    __pydantic_config__: ClassVar = KEYS
    CLOSED: ClassVar = True
    """An unknown key is always a mistake here: without it, more pods would match than intended."""

    match_labels: Mapping[LabelKey, LabelValue] = field(default_factory=dict)
    """Labels that a pod must have."""
    match_expressions: tuple[MatchExpression, ...] = ()
    """Requirements; a pod must meet all of them, and all of `matchLabels`."""

    def selector(self) -> LabelSelector:
        """Returns the selector; a label is the requirement In with one value, as the two mean the same."""
        labels = (
            Requirement(key, Operator.IN, frozenset({value}))
            for key, value in self.match_labels.items()
        )
        return LabelSelector((*labels, *(each.requirement() for each in self.match_expressions)))

    @classmethod
    def of(cls, selector: LabelSelector) -> "PodSelector":
        """Returns the form of a selector: a requirement of one value is a label, unless another has the same key."""
        times = Counter(each.key for each in selector.requirements)
        labels = {
            each.key: next(iter(each.values))
            for each in selector.requirements
            if each.operator is Operator.IN and len(each.values) == 1 and times[each.key] == 1
        }
        others = (each for each in selector.requirements if each.key not in labels)
        return cls(
            labels,
            tuple(
                MatchExpression(each.key, each.operator, tuple(sorted(each.values)))
                for each in others
            ),
        )


Selector = Annotated[LabelSelector, WrittenAs(PodSelector, PodSelector.selector, PodSelector.of)]
