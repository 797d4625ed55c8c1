"""Decodes and encodes Pauses and ScaleRequests: the one place that knows their words, such as `Up` and `Succeeded`.

The API server validates both kinds. What deviates all the same was made for another version of the program: such an
object is decoded to a record with a `problem`, and a Pause then pauses everything (rules 7).
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from app.core.errors import BadAnswer, trimmed
from app.core.kube.decoding.envelope import Few, Raw, expect
from app.core.model.instants import format_duration, parse_duration, parse_rfc3339, rfc3339
from app.core.model.overrides import (
    LONGEST,
    UNKNOWN,
    ObjectId,
    Pause,
    ScaleRequest,
    Scope,
    phase_word,
)
from app.core.model.scaling_runs import OperationPhase, RunStep, ScaleSpec, StepPhase
from app.core.model.workloads import PREFIX, Direction, ResourceRef
from app.core.redaction import one_line

CREATED_BY: Final = PREFIX + "created-by"
"""Annotation of objects that the API made: the identity of the process. Their author is an authenticated caller."""
LONGEST_REASON: Final = 500
LONGEST_AUTHOR: Final = 253
_LONGEST_MESSAGE: Final = 1_024
_MOST_STEPS: Final = 64
_DIRECTIONS: Final = {"Up": Direction.UP, "Down": Direction.DOWN}
_DIRECTION_WORDS: Final = {each: word for word, each in _DIRECTIONS.items()}


class _Annotations(Struct):
    created_by: str | None = msgspec.field(default=None, name=CREATED_BY)


class _Meta(Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    creation_timestamp: str
    deletion_timestamp: str | None = None
    namespace: str | None = None
    annotations: _Annotations | None = None


class _Any(Struct):
    metadata: _Meta
    kind: str | None = None
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"null")


class _PauseSpec(Struct):
    reason: str
    scope: Scope = Scope.ALL
    until: str | None = None
    author: str | None = None


class _PauseStatus(Struct):
    until: str | None = None


class _ScaleSpec(Struct):
    direction: str
    reason: str
    author: str | None = None
    hold: str = "30m"
    force: bool = False


class _Step(Struct, rename="camel"):
    resource: str
    level: int
    phase: StepPhase
    message: str | None = None
    started_at: str | None = None
    written_at: str | None = None
    ended_at: str | None = None
    before: int | None = None
    after: int | None = None


class _ScaleStatus(Struct, rename="camel"):
    phase: str | None = None
    message: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    hold_until: str | None = None
    observed_by: str | None = None
    steps: Few[msgspec.Raw] | None = None


_decoder: Final = msgspec.json.Decoder(_Any)
_pause_spec: Final = msgspec.json.Decoder(_PauseSpec)
_pause_status: Final = msgspec.json.Decoder(_PauseStatus | None)
_scale_spec: Final = msgspec.json.Decoder(_ScaleSpec)
_step_decoder: Final = msgspec.json.Decoder(_Step)
_scale_status: Final = msgspec.json.Decoder(_ScaleStatus | None)


def pause(raw: Raw) -> Pause:
    """Decodes a Pause."""
    got = _decoder.decode(raw)
    expect("Pause", got.kind or "Pause")
    meta, created = got.metadata, _created(got.metadata)
    try:
        spec = _pause_spec.decode(got.spec)
        told = _pause_status.decode(got.status)
        until = _time("spec.until", spec.until)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = trimmed(str(error))
        reason = f"Pause {meta.name} cannot be read: {problem}"
        end = created + LONGEST
        return Pause(
            Scope.ALL,
            reason,
            UNKNOWN,
            created,
            end,
            _id(meta),
            problem=problem,
            deleting=_deleting(meta),
        )
    return Pause(
        spec.scope,
        one_line(spec.reason, LONGEST_REASON),
        _author(spec.author),
        created,
        created + LONGEST if until is None else until,
        _id(meta),
        _verified(meta),
        told_until=None if told is None else parse_rfc3339(told.until),
        deleting=_deleting(meta),
    )


def scale_request(raw: Raw) -> ScaleRequest:
    """Decodes a ScaleRequest."""
    got = _decoder.decode(raw)
    expect("ScaleRequest", got.kind or "ScaleRequest")
    meta, created = got.metadata, _created(got.metadata)
    try:
        spec = _spec(_scale_spec.decode(got.spec))
        status = _scale_status.decode(got.status) or _ScaleStatus()
        word = status.phase or phase_word(OperationPhase.PENDING)
        done = word == phase_word(OperationPhase.DONE)
        phase = OperationPhase.DONE if done else OperationPhase(word)
        steps = tuple(filter(None, map(_step, status.steps or ())))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        nothing = ScaleSpec(Direction.UP, "", UNKNOWN, 0.0)
        return ScaleRequest(_id(meta), nothing, created, problem=trimmed(str(error)))
    return ScaleRequest(
        _id(meta),
        spec,
        created,
        phase,
        trimmed(status.message or "", _LONGEST_MESSAGE),
        parse_rfc3339(status.started_at),
        parse_rfc3339(status.ended_at),
        parse_rfc3339(status.hold_until),
        steps,
        status.observed_by,
        _verified(meta),
        deleting=_deleting(meta),
    )


def _spec(got: _ScaleSpec) -> ScaleSpec:
    direction = _DIRECTIONS.get(got.direction)
    if direction is None:
        raise ValueError(f"spec.direction: {' or '.join(_DIRECTIONS)}, not {got.direction}")
    try:
        hold = parse_duration(got.hold)
    except ValueError as error:
        raise ValueError(f"spec.hold: {error}") from error
    return ScaleSpec(
        direction,
        one_line(got.reason, LONGEST_REASON),
        _author(got.author),
        min(max(hold, 0.0), LONGEST),
        got.force,
    )


def _step(raw: msgspec.Raw) -> RunStep | None:
    """Returns a step; None if another version of the program wrote it in words that this one does not know."""
    try:
        got = _step_decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    kind, _, name = got.resource.partition("/")
    return RunStep(
        ResourceRef("", kind, name),
        got.level,
        got.phase,
        trimmed(got.message or "", _LONGEST_MESSAGE),
        parse_rfc3339(got.started_at),
        parse_rfc3339(got.written_at),
        parse_rfc3339(got.ended_at),
        got.before,
        got.after,
    )


def _created(meta: _Meta) -> float:
    created = parse_rfc3339(meta.creation_timestamp)
    if created is None:
        raise BadAnswer("metadata.creationTimestamp is not a time")
    return created


def _time(field: str, text: str | None) -> float | None:
    found = parse_rfc3339(None if text is None else text.upper())
    if text is not None and found is None:
        raise ValueError(f"{field}: not a time in RFC 3339")
    return found


def _id(meta: _Meta) -> ObjectId:
    return ObjectId(meta.namespace or "", meta.name, meta.uid, meta.resource_version)


def _author(text: str | None) -> str:
    return one_line(text or "", LONGEST_AUTHOR) or UNKNOWN


def _deleting(meta: _Meta) -> bool:
    return meta.deletion_timestamp is not None


def _verified(meta: _Meta) -> bool:
    return bool(meta.annotations and meta.annotations.created_by)


# What the program writes.


def pause_spec(wanted: Pause) -> Mapping[str, Any]:
    """Returns the spec of a Pause; a part of a second counts as a whole one, so that nothing ends too early."""
    return {
        "scope": str(wanted.scope),
        "reason": one_line(wanted.reason, LONGEST_REASON),
        "until": rfc3339(math.ceil(wanted.until)),
        "author": trimmed(wanted.author, LONGEST_AUTHOR),
    }


def scale_spec(wanted: ScaleRequest) -> Mapping[str, Any]:
    """Returns the spec of a ScaleRequest; a part of a millisecond counts as a whole one."""
    spec = wanted.spec
    return {
        "direction": _DIRECTION_WORDS[spec.direction],
        "reason": one_line(spec.reason, LONGEST_REASON),
        "author": trimmed(spec.author, LONGEST_AUTHOR),
        "hold": format_duration(math.ceil(spec.hold * 1_000) / 1_000),
        "force": spec.force,
    }


def pause_status(pause: Pause) -> Mapping[str, Any]:
    """Returns the status of a Pause: when it ends, for `kubectl get`."""
    return {"until": rfc3339(pause.until)}


def scale_status(request: ScaleRequest) -> Mapping[str, Any]:
    """Returns the status of a ScaleRequest; null removes a field from what a merge patch finds."""
    return {
        "phase": phase_word(request.phase),
        "message": trimmed(request.message, _LONGEST_MESSAGE),
        "startedAt": _text(request.started),
        "endedAt": _text(request.ended),
        "holdUntil": _text(request.hold_until),
        "observedBy": request.observed_by,
        "steps": [_encoded(each) for each in request.steps[:_MOST_STEPS]],
    }


def _encoded(step: RunStep) -> Mapping[str, Any]:
    found = {
        "resource": str(step.resource),
        "level": step.level,
        "phase": str(step.phase),
        "message": trimmed(step.message, _LONGEST_MESSAGE),
        "startedAt": _text(step.started),
        "writtenAt": _text(step.written),
        "endedAt": _text(step.ended),
        "before": step.before,
        "after": step.after,
    }
    return {name: value for name, value in found.items() if value is not None}


def _text(instant: float | None) -> str | None:
    return None if instant is None else rfc3339(instant, micro=True)
