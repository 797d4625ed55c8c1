"""The program runs on uvloop: what speaks to sockets is tested on it, and on asyncio's own loop."""

import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
