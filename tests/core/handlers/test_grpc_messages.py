"""The messages of the health service, against the library of Protocol Buffers."""

import contextlib

import pytest
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st

from app.core.handlers import grpc
from app.core.handlers.grpc import Malformed


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


@given(st.text(max_size=400))
def test_a_request_is_what_the_library_would_send(service):
    expected = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    assert grpc.request(service) == framed(expected)


@given(st.integers(0, 2**31 - 1))
def test_a_status_is_what_the_library_reads(number):
    message = health_pb2.HealthCheckResponse(status=number).SerializeToString()
    assert grpc.status(framed(message)) == number


def test_its_words_are_those_of_the_library():
    assert list(grpc.STATUSES) == health_pb2.HealthCheckResponse.ServingStatus.keys()
    assert grpc.STATUSES[grpc.SERVING] == "SERVING"


@given(st.binary(max_size=40))
def test_of_any_bytes_the_status_is_that_of_the_library_or_they_are_malformed(message):
    found = None
    with contextlib.suppress(Malformed):
        found = grpc.status(framed(message))
    known = None
    with contextlib.suppress(DecodeError):
        known = health_pb2.HealthCheckResponse.FromString(message).status
    if found in range(len(grpc.STATUSES)) and known is not None:
        assert found == known


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0",
        framed(b"")[:-1],
        b"\1\0\0\0\2\x08\1",
        framed(b"\x08\1") + b"more",
        framed(b"\x08"),
    ],
    ids=["nothing", "a byte", "short", "compressed", "long", "cut off"],
)
def test_what_is_no_message_is_malformed(answer):
    with pytest.raises(Malformed):
        grpc.status(answer)
