"""The programs that a chart is tried with: where they are, and how they are called."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

_SECONDS: Final = 60.0


class Failed(Exception):
    """A program ended with another code than 0; `output` is all that it printed."""

    def __init__(self, words: Sequence[str], code: int, output: str) -> None:
        self.code, self.output = code, output
        super().__init__(f"{' '.join(words)} ended with {code}:\n{output}")


class Tool:
    """A program, with a home of its own, so that nothing of this machine's owner plays a part.

    Args:
        path: where it is.
        home: a folder for its configuration and caches.
        first: words that stand before those of every call.
        environment: what it sees beside `HOME` and an empty `PATH`.
    """

    def __init__(
        self,
        path: Path,
        home: Path,
        first: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.home = path, home
        self._first = tuple(first)
        self._environment = {"HOME": str(home), "PATH": "", **(environment or {})}

    def __call__(self, *words: str | Path, stdin: str = "") -> str:
        """Calls it; returns its standard output.

        Raises:
            Failed: it ended with another code than 0.
        """
        command = [str(self.path), *self._first, *(str(word) for word in words)]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env=self._environment,
        )
        if done.returncode:
            raise Failed(command, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def refusal(self, *words: str | Path, stdin: str = "") -> str:
        """Calls it, and expects it to fail; returns all that it printed."""
        try:
            printed = self(*words, stdin=stdin)
        except Failed as failed:
            return failed.output
        raise AssertionError(f"{self.path.name} {' '.join(map(str, words))} went well:\n{printed}")

    def with_words(self, *first: str) -> "Tool":
        """The same program, with more words in front of each call."""
        return Tool(self.path, self.home, (*self._first, *first), self._environment)


def where_is(name: str) -> Path | None:
    """A program in KUBEBUILDER_ASSETS, else on the PATH; None where it is in neither."""
    beside = os.environ.get("KUBEBUILDER_ASSETS")
    if beside and (Path(beside) / name).is_file():
        return Path(beside) / name
    found = shutil.which(name)
    return Path(found) if found else None


def tool(name: str, home: Path) -> Tool:
    """A program by name; the test that asks is skipped where there is none."""
    path = where_is(name)
    if path is None:
        pytest.skip(f"{name} is not there (make test-kube builds or needs it)")
    home.mkdir(parents=True, exist_ok=True)
    return Tool(path, home)
