"""Certificates with their keys, loaded from memory."""

import os
import ssl
from pathlib import Path

import pytest

from app.core.tls import load_chain
from tests.support.certs import Authority


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def context():
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@pytest.mark.parametrize("memory", [True, False])
def test_a_pair_is_loaded_from_memory_or_where_there_is_none_from_a_file_for_a_moment(
    context, monkeypatch, memory
):
    if not memory:
        monkeypatch.delattr(os, "memfd_create")
    pair = Authority.create().server()
    before = open_files()
    load_chain(context, pair.certificate + pair.key)
    assert open_files() == before
