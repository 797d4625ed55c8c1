"""docs/api.md: each command of the page does what the page says, in its order, against the demo and its story."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.demo.test_program import FREE, demo
from tests.demo.typed import MARKS
from tests.e2e.processes import free_port

pytestmark = MARKS

PAGE = (Path(__file__).parents[2] / "docs/api.md").read_text()
COMMANDS = re.compile(r"^```sh\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
ANSWER = re.compile(r"\n```(|json)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PRELUDE = """
# Statuses go to standard error; what never ends ends after a while.
curl() { command curl --max-time 4 -w '%{stderr}status %{http_code}\\n' "$@" || test $? = 28; }
"""
BEGUN = """
# As the page says: a is at 0, the pods of c have been restarted; and nothing happens to b any more.
states() {
  command curl -s localhost:8080/api/v1/shoots |
    jq -c '[.items[]] | map({(.namespace[13:]): .state}) | add | [.a, .b, .c]' 2>/dev/null
}
until test "$(states)" = '["Protected","Healthy","Healthy"]'; do sleep 0.5; done
"""
PACE = 1.0
"""Seconds from one block to the next: nobody reads faster, and what was begun has come further."""


@dataclass(frozen=True)
class Step:
    """One block of commands, and the block below it: what the page says that comes back."""

    commands: str
    language: str
    told: str
    status: int = field(init=False)

    def __post_init__(self) -> None:
        problem = re.search(r'"status": (\d{3})', self.told)
        head = re.match(r"HTTP/1\.1 (\d{3})", self.told)
        found = problem or head
        object.__setattr__(self, "status", int(found[1]) if found else 200)

    @property
    def expected(self) -> list[Any]:
        """The JSON values that the page shows."""
        if self.language == "json":
            return values(self.told)
        return values(self.told.partition("\n\n")[2]) if self.told.startswith("HTTP/") else []

    @property
    def headers(self) -> set[str]:
        """The headers that the page shows."""
        head = self.told.partition("\n\n")[0] if self.told.startswith("HTTP/") else ""
        return {line.partition(":")[0] for line in head.splitlines()[1:]}


def values(text: str) -> list[Any]:
    """All JSON values of a text, one after the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


def step(block: re.Match[str]) -> Step:
    """The block of commands, and what comes back where that stands right below it."""
    below = ANSWER.match(PAGE, block.end())
    return Step(block[1], below[1], below[2]) if below else Step(block[1], "", "")


STEPS = [step(block) for block in COMMANDS.finditer(PAGE)]


def shape(value: Any) -> Any:
    """What a value is made of; of a list its first item stands for all."""
    match value:
        case dict():
            return {key: shape(each) for key, each in value.items()}
        case list():
            return [shape(each) for each in value[:1]]
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case None:
            return None
        case _:
            return "text"


def differences(told: Any, real: Any, at: str = "") -> list[str]:
    """Where two shapes are not alike; null and an empty list are like anything."""
    if told in (None, []) or real in (None, []):
        return []
    if isinstance(told, dict) and isinstance(real, dict):
        missing = [f"{at}.{key} is on one side only" for key in told.keys() ^ real.keys()]
        both = [differences(told[key], real[key], f"{at}.{key}") for key in told.keys() & real]
        return missing + [each for found in both for each in found]
    if isinstance(told, list) and isinstance(real, list):
        return differences(told[0], real[0], f"{at}[0]")
    return [] if told == real else [f"{at} is {real}, not {told}"]


@dataclass(frozen=True)
class Ran:
    """What became of a block."""

    code: int
    out: str
    statuses: list[int]

    @property
    def body(self) -> str:
        """The output without the head of an answer."""
        return self.out.partition("\r\n\r\n")[2] if self.out.startswith("HTTP/") else self.out

    @property
    def headers(self) -> set[str]:
        """Names of the headers that were shown."""
        head = self.out.partition("\r\n\r\n")[0] if self.out.startswith("HTTP/") else ""
        return {line.partition(":")[0].lower() for line in head.splitlines()[1:]}


def script(api: str, health: str, folder: Path) -> str:
    """All commands in the order of the page, in one shell, so that variables live on; each block has its own files."""
    parts = [BEGUN, PRELUDE]
    for number, step in enumerate(STEPS):
        place = folder / str(number)
        parts.append(
            f"{{\n{step.commands}\n}} >{place}.out 2>{place}.err\necho $? >{place}.code\nsleep {PACE}\n"
        )
    text = "\n".join(parts)
    return text.replace("localhost:8080", api).replace("localhost:9644", health)


async def run(text: str) -> None:
    """Runs it; no block of it fails the script."""
    shell = await asyncio.create_subprocess_exec("bash", "-c", f"set -o pipefail\n{text}")
    try:
        async with asyncio.timeout(LIMIT):
            assert await shell.wait() == 0
    finally:
        if shell.returncode is None:
            shell.kill()
            await shell.wait()


def became(folder: Path, number: int) -> Ran:
    place = folder / str(number)
    errors = place.with_suffix(".err").read_text()
    return Ran(
        int(place.with_suffix(".code").read_text()),
        place.with_suffix(".out")
        .read_bytes()
        .decode(),  # heads of answers end their lines in CR LF
        [int(each) for each in re.findall(r"status (\d{3})", errors)],
    )


def complaints(step: Step, ran: Ran) -> list[str]:
    """Where what happened is not what the page says."""
    last = ran.statuses[-1] if ran.statuses else None
    found = [] if ran.code == 0 else [f"exit code {ran.code}"]
    good = last == step.status if step.status != 200 else last in {None, 200, 202}
    found += [] if good else [f"{last} instead of {step.status}"]
    found += [f"no header {each}" for each in step.headers - ran.headers]
    real = values(ran.body) if step.expected else []
    found += ["no answer"] if step.expected and not real else []
    for told, come in zip(step.expected, real, strict=False):
        found += differences(shape(told), shape(come))
    return found


LIMIT = 240
"""Seconds: the story comes to where the page begins in one and a half minutes, and the commands take one."""


@pytest.mark.timeout(LIMIT + 20)
async def test_each_command_of_the_page_is_answered_as_the_page_says(tmp_path):
    health = f"127.0.0.1:{free_port()}"
    flags = [*FREE[:2], f"--health-bind-addr={health}", "--speed=3"]
    async with demo(*flags) as running:
        (api,) = (await running.line(r"http://(\S+)/;")).groups()
        await run(script(api, health, tmp_path))
    wrong = {
        step.commands: found
        for number, step in enumerate(STEPS)
        if (found := complaints(step, became(tmp_path, number)))
    }
    assert wrong == {}


def test_all_commands_of_the_tasks_are_tried():
    tasks = PAGE[: PAGE.index("## In a cluster")]
    tried = "".join(step.commands for step in STEPS)
    assert len(STEPS) > 25
    assert all(line in tried for line in tasks.splitlines() if line.startswith("curl "))
