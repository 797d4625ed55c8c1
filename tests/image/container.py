"""Commands in the root of the image, as its container would run them."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import ended

CHECKOUT = Path(__file__).resolve().parent.parent.parent
RUN_IN = CHECKOUT / "hack" / "image" / "run-in"
PYTHON = "/usr/local/bin/python"
LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class Image:
    """The root of an image."""

    root: Path

    def run(self, *command: str, mounts: Mapping[str, Path] | None = None) -> "Ended":
        """Runs a command to its end."""
        done = ended(*_started_with(self.root, command, mounts or {}, {}))
        return Ended(done.returncode, done.stdout, done.stderr)

    def python(self, code: str) -> str:
        """What the interpreter of the image prints for `code`."""
        done = self.run(PYTHON, "-I", "-c", code)
        assert done.code == 0, done.errors
        return done.output

    @contextmanager
    def start(
        self, *command: str, log: Path, mounts: Mapping[str, Path], variables: Mapping[str, str]
    ) -> Iterator["Running"]:
        """A command that runs until it is told to end, or this context ends."""
        with log.open("w") as output:
            process = subprocess.Popen(
                _started_with(self.root, command, mounts, variables),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                yield Running(process, log)
            finally:
                process.kill()
                process.wait()

    def files(self) -> Iterator[Path]:
        """Everything in it that is no folder."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                yield Path(folder, name)


def _started_with(
    root: Path, command: tuple[str, ...], mounts: Mapping[str, Path], variables: Mapping[str, str]
) -> list[str]:
    shown = [f"--mount={folder}:{place}" for place, folder in mounts.items()]
    told = [f"--env={name}={value}" for name, value in variables.items()]
    return [str(RUN_IN), *shown, *told, str(root), *command]


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    code: int
    output: str
    errors: str


@dataclass(frozen=True, slots=True)
class Running:
    """A command that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def pid(self) -> int | None:
        """The number outside of the process that is PID 1 inside, once the command runs."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in children.read_text().split():
            if Path(f"/proc/{child}/status").read_text().count("Uid:\t65532"):
                return int(child)
        return None

    def terminate(self, pid: int) -> int:
        """What the kubelet does first; returns the exit code."""
        os.kill(pid, signal.SIGTERM)
        return self.process.wait(LIMIT)

    def said(self) -> str:
        """What it has printed."""
        return self.log.read_text()
