"""The program runs on uvloop, and so do its servers; that they are no servers of uvloop alone is seen by one by TLS."""

import asyncio

import uvloop

ON_BOTH = {"test_https_is_answered_and_ends"}


def pytest_asyncio_loop_factories(config, item):
    own = {"asyncio": asyncio.new_event_loop} if item.originalname in ON_BOTH else {}
    return {"uvloop": uvloop.new_event_loop} | own
