"""The program runs on uvloop, and so do these servers; those of tests/attack are on asyncio's own loop, too."""

import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}
