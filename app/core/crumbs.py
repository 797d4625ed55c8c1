"""The error for an answer that costs far more than its content."""

import aiohttp


class ExcessiveFraming(aiohttp.ClientPayloadError):
    """An answer came in far more chunks, records or interim answers than necessary, or nobody had requested it."""
