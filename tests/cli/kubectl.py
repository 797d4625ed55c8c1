"""A kubectl that speaks as kubectl does: it forwards to the ports that its environment names, and creates objects.

`FAKE_PODS` has a JSON object of targets and ports, `FAKE_LOG` the file that is told of each start and end. `FAKE_SEED`
is a folder of answers to what is created: exit code, standard output and standard error, by kind and number.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path


def log(*words):
    with Path(os.environ["FAKE_LOG"]).open("a") as file:
        file.write(json.dumps([os.getpid(), *words]) + "\n")


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def pipe(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def forward(port):
    async def connected(reader, writer):
        say(f"Handling connection for {port} {'x' * 200}")
        onward = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, onward[1]), pipe(onward[0], writer))

    return await asyncio.start_server(connected, "127.0.0.1", 0)


def create():
    words = dict(each.partition("=")[::2] for each in sys.argv[1:])
    body = json.loads(Path(words["--filename"]).read_text())
    log("creates", words, body, "DWD_SERVER" in os.environ, sys.stdin.read())
    answers = sorted(Path(os.environ["FAKE_SEED"]).glob(f"{body['kind']}-*"))
    code, out, err = json.loads(answers[0].read_text())
    if len(answers) > 1:
        answers[0].unlink()
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


async def main():
    if "create" in sys.argv:
        return create()
    log("begins", *sys.argv[1:])
    target = sys.argv[-2]
    port = json.loads(os.environ["FAKE_PODS"]).get(target)
    if port is None:
        sys.stderr.write(f'error: pods "{target}" not found\x1b[31m\n')
        return 1
    server = await forward(port)
    say(f"Forwarding from 127.0.0.1:{server.sockets[0].getsockname()[1]} -> 8080")
    ended = asyncio.Event()
    if os.environ.get("FAKE_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    log("ends")
    return 0


sys.exit(asyncio.run(main()))
