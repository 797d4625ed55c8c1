"""Plays mutants in one session of pytest: all tests are collected once, and each mutant gets a fork of that.

First the tests run unchanged, with coverage, which tells for each line the tests that pass it. A mutant then meets only
the tests that pass the statement that it changes, the likeliest first, until one fails or its seconds of CPU are over.
"""

import contextlib
import itertools
import json
import operator
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import coverage
import pytest

from hack.mutation.mutants import Mutant

NOTICED: Final = "noticed"
SURVIVED: Final = "survived"
UNREACHED: Final = "no test"
STOPPED: Final = "stopped"
"""Its seconds were over before all of its tests had run."""
BROKEN: Final = "broken"
"""pytest, or this module, has failed; that says nothing of it."""

MEMORY: Final = 4 << 30
"""Bytes that a mutant may take: one that fills a list for ever is noticed, not the machine's end."""


class Mutation:
    """The plugin: instead of running the tests it plays the mutants, `jobs` at a time."""

    def __init__(
        self,
        mutants: list[Mutant],
        found: Path,
        *,
        seconds: float,
        jobs: int,
        known: dict[str, Any],
        again: bool,
        commit: str,
    ) -> None:
        """Plays what has no result among `known`, or none that still says something.

        Args:
            mutants: all of them.
            found: the file to which results are added.
            seconds: of CPU for the tests of one.
            jobs: how many are played at a time.
            known: earlier results by mutant.
            again: play those that were not noticed, too, with the tests that they have not met first.
            commit: what each result is of.
        """
        self._mutants = mutants
        self._found = found
        self._seconds = seconds
        self._jobs = jobs
        self._known = known
        self._again = again
        self._commit = commit
        self._failed = ""
        self._ids: list[str] = []
        self._usual: dict[int, float] = {}  # seconds of CPU, by test
        self._passing: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._killers: dict[str, Counter[int]] = defaultdict(Counter)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Before the tests are imported, which take their profile's values then."""
        import hypothesis  # noqa: PLC0415 - pytest imports it, and rewrites its assertions

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # a failure is enough
        hypothesis.settings.register_profile(
            "mutation", hypothesis.settings(), phases=phases, database=None
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("not all tests could be collected")
        self._ids = [item.nodeid for item in session.items]
        left = [each for each in self._mutants if self._is_left(each)]
        self._run_unchanged(session)
        running: dict[int, tuple[Mutant, Path]] = {}
        for played, mutant in enumerate(left):
            tests = self._likeliest_first(mutant)
            if not tests:
                self._keep(mutant, UNREACHED)
                continue
            directory = Path(tempfile.mkdtemp(prefix="mutant-"))
            pid = os.fork()
            if not pid:
                self._play(session, mutant, tests, directory)
            running[pid] = (mutant, directory)
            while len(running) >= self._jobs:
                self._collect(running)
            if played % 100 == 0:
                sys.stderr.write(f"{played} of {len(left)}\n")
        while running:
            self._collect(running)
        return True

    def _is_left(self, mutant: Mutant) -> bool:
        result = self._known.get(mutant.name)
        if result is None:
            return True
        if result["outcome"] != NOTICED:
            return self._again
        return "::" in result["by"] and result["by"] not in self._ids  # that test is gone

    def _run_unchanged(self, session: pytest.Session) -> None:
        """All tests, shared out by modules among `jobs` forks."""
        modules = itertools.groupby(
            range(len(self._ids)), lambda test: self._ids[test].split("::")[0]
        )
        parts: list[list[int]] = [[] for _ in range(self._jobs)]
        for number, (_, tests) in enumerate(modules):
            parts[number % self._jobs] += tests
        parts = [part for part in parts if part]
        directory = Path(tempfile.mkdtemp(prefix="unchanged-"))
        children = []
        for number, part in enumerate(parts):
            pid = os.fork()
            if not pid:
                with _child(session, directory / f"tmp{number}"):
                    self._cover(session, part, directory / f"{number}")
            children.append(pid)
        for pid in children:
            if os.waitpid(pid, 0)[1]:
                sys.exit("the tests that run unchanged have ended their process")
        for number in range(len(parts)):
            usual, passing = pickle.loads((directory / f"{number}").read_bytes())  # noqa: S301 - written above
            self._usual |= usual
            for path, by_line in passing.items():
                for line, tests in by_line.items():
                    self._passing[path][line] |= tests
        shutil.rmtree(directory, ignore_errors=True)
        sys.stderr.write(f"{len(self._usual)} of {len(self._ids)} tests pass unchanged\n")

    def _cover(self, session: pytest.Session, part: list[int], to: Path) -> None:
        paths = sorted({mutant.path for mutant in self._mutants})
        tracer = coverage.Coverage(
            data_file=None, config_file=False, include=[str(Path(path).resolve()) for path in paths]
        )
        usual: dict[int, float] = {}
        tracer.start()
        for test in part:
            tracer.switch_context(str(test))
            begun = time.process_time()
            if self._passes(session, test):
                usual[test] = time.process_time() - begun
            else:
                sys.stderr.write(f"fails unchanged, and is left out: {self._ids[test]}\n")
        tracer.stop()
        data = tracer.get_data()
        passing = {
            path: {
                line: {int(each) for each in tests if each} & usual.keys()
                for line, tests in data.contexts_by_lineno(str(Path(path).resolve())).items()
            }
            for path in paths
        }
        to.write_bytes(pickle.dumps((usual, passing)))

    def _passes(self, session: pytest.Session, test: int) -> bool:
        """Runs one test by itself: no fixture stays for the next one."""
        self._failed = ""
        item = session.items[test]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self._failed

    def _likeliest_first(self, mutant: Mutant) -> list[int]:
        by_line = self._passing[mutant.path]
        tests = set().union(*(by_line[line] for line in mutant.lines))
        met = set(self._known.get(mutant.name, {}).get("met", ()))
        kills, of_file = self._killers[mutant.function], self._killers[mutant.path]
        rooms = mutant.path.split("/")[1:]

        def cost(test: int) -> tuple[bool, float]:
            own = self._ids[test].split("/")[1:]
            near = sum(map(operator.eq, own, rooms))
            worth = 1 + 20 * kills[test] + of_file[test] + 2 * near
            return self._ids[test] in met, (self._usual[test] + 0.005) / worth

        return sorted(tests, key=cost)

    def _play(
        self, session: pytest.Session, mutant: Mutant, tests: list[int], directory: Path
    ) -> NoReturn:
        with _child(session, directory):
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            begun, number = time.process_time(), 0

            def says(outcome: str, *, hung: bool = False) -> NoReturn:
                before = self._known.get(mutant.name, {}).get("met", [])
                met = {*before, *(self._ids[each] for each in tests[:number])}
                result = {
                    "outcome": outcome,
                    "by": tests[number] if outcome == NOTICED else None,
                    "hung": hung,
                    "tests": len(tests),
                    "met": sorted(met) if outcome == STOPPED else [],
                    "seconds": round(time.process_time() - begun, 2),
                }
                # Whole or not at all: memory, or another signal, may end it in the middle.
                (directory / "writing").write_text(json.dumps(result))
                (directory / "writing").rename(directory / "result")
                os._exit(0)

            # A loop that never ends takes no virtual time, only CPU; what waits for ever in real time takes neither.
            signal.signal(signal.SIGPROF, lambda *_: says(NOTICED, hung=True))
            signal.signal(signal.SIGALRM, lambda *_: says(NOTICED, hung=True))
            mutant.install()
            for test in tests:
                if time.process_time() - begun > self._seconds:
                    says(STOPPED)
                signal.setitimer(signal.ITIMER_PROF, 5 + 10 * self._usual[test])
                signal.setitimer(signal.ITIMER_REAL, 60 + 100 * self._usual[test])
                if not self._passes(session, test):
                    says(NOTICED)
                number += 1
            says(SURVIVED)

    def _collect(self, running: dict[int, tuple[Mutant, Path]]) -> None:
        """Waits for one that has ended."""
        pid, status = os.wait()
        if pid not in running:
            return
        mutant, directory = running.pop(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what a test has left
        written, failure = directory / "result", directory / "failure"
        if written.exists():
            result = json.loads(written.read_text())
            if (by := result["by"]) is not None:
                self._killers[mutant.function][by] += 1
                self._killers[mutant.path][by] += 1
                result["by"] = self._ids[by]
            self._keep(mutant, result.pop("outcome"), **result)
        elif failure.exists():
            self._keep(mutant, BROKEN, failure=failure.read_text())
        else:  # it took too much memory, or ended the process
            self._keep(mutant, NOTICED, by=f"the end of its process ({status})")
        shutil.rmtree(directory, ignore_errors=True)

    def _keep(self, mutant: Mutant, outcome: str, **more: object) -> None:
        line = {
            "mutant": mutant.name,
            "source": mutant.source,
            "commit": self._commit,
            "outcome": outcome,
            "at": f"{mutant.path}:{min(mutant.lines)}",
            "change": mutant.change,
            **more,
        }
        with self._found.open("a") as to:
            to.write(f"{json.dumps(line)}\n")


@contextlib.contextmanager
def _child(session: pytest.Session, directory: Path) -> Iterator[None]:
    """The rest of a fork: in a group and a directory of its own, silent, and never back to where it came from."""
    code = 1
    try:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        session.config.pluginmanager.unregister(name="terminalreporter")
        directory.mkdir(exist_ok=True)
        session.config._tmp_path_factory._basetemp = directory  # type: ignore[attr-defined]  # noqa: SLF001 - each fork would clear the others'
        yield
        code = 0
    except BaseException:
        (directory / "failure").write_text(traceback.format_exc())
        raise
    finally:
        os._exit(code)
