"""The error for an answer that costs far more than its content."""

# A file of its own: `bounded_http` raises it and `core.kube.failures` translates it, which must not import asyncio (a
# contract holds that).

import aiohttp


class ExcessiveFraming(aiohttp.ClientPayloadError):
    """An answer came in far more chunks, records or interim answers than necessary, or nobody had requested it."""
