"""What an answer is that costs more than it says."""

import aiohttp


class Crumbs(aiohttp.ClientPayloadError):
    """It came in far more chunks, records or interim answers than it takes, or nobody had asked for it."""
