"""What went wrong with a connection, in a few words: never a byte of what the other side said."""

import os
import ssl
from typing import Final

import aiohttp

from app.core.handlers.lookup import NoAddress

FOREIGN: Final = (aiohttp.ClientError, OSError)
"""What a connection may raise; TimeoutError and ssl.SSLError are OSErrors."""


class Closed(aiohttp.ClientError):
    """The connection ended before an answer began."""


def why(error: Exception) -> str:
    """The reason, for an operator."""
    match error:
        case NoAddress() | aiohttp.ClientConnectorDNSError():
            return "the name cannot be resolved"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "no TLS connection could be made"
        case Closed():
            return "the connection was closed before an answer came"
        case OSError(errno=int() as number):
            return f"no connection: {os.strerror(number)}"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
        case _:
            return f"no answer ({type(error).__name__})"
