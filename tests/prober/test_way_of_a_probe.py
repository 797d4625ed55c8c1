"""The modules that one probe passes, from the answer's bytes to the patch and the Event, are the documented ones."""

import contextvars
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.prober.test_records import Records
from tests.support.harness import KCM, SHOOT

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
_THIS_PROBE = contextvars.ContextVar("this probe", default=False)


@contextmanager
def passed() -> Iterator[set[str]]:
    """The files whose functions run for this probe: in the task that enters, and in those that it starts."""
    found: set[str] = set()

    def note(frame, event, _arg):
        if event == "call" and _THIS_PROBE.get():
            found.add(frame.f_code.co_filename)

    _THIS_PROBE.set(True)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def of_the_program(files: set[str]) -> set[str]:
    """Those of `app`, as paths from the root; without the simulated seed, which answers in the same task."""
    app = [Path(each) for each in files if each.startswith(str(ROOT / "app"))]
    paths = {each.relative_to(ROOT).as_posix() for each in app}
    return {each for each in paths if not each.startswith("app/simulation/")}


def documented() -> set[str]:
    """The files that the section names, in its table."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (way,) = [each for each in section if each.startswith("The way of a probe")]
    rows = [line for line in way.splitlines() if line.startswith("| ")]
    return {path for row in rows for path in re.findall(r"`(app/[\w/]+\.py)`", row)}


async def test_the_way_of_a_probe_is_the_documented_one(lab, harness):
    records = Records(harness, lab.tasks)
    await harness.run(60)
    runner = harness.prober.registry.runner(SHOOT)
    probe = runner._probe_once
    ways: list[set[str]] = []

    async def followed():
        with passed() as way:
            await probe()
            await harness.until(lambda: runner.status_facts().running is None)
        if harness.writes(KCM) and not ways:
            ways.append(of_the_program(way))

    runner._probe_once = followed
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: ways and records.events, within=120)
    assert ("ScaledDown", KCM.name) in records.events
    assert ways[0] == documented()
