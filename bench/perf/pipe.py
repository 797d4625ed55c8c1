"""How the processes of the bench are steered: a line with a command in, a line of JSON out."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping


async def answer(commands: Mapping[str, Callable[[], object]]) -> None:
    """Answers each line that names a command with one line of JSON, until the pipe is closed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        print(json.dumps(commands[line.decode().strip()]()), flush=True)
