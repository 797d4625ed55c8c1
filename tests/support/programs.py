"""Programs that a test runs to their end."""

import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def ended(
    *words: str | Path, cwd: Path = ROOT, timeout: float = 80, **more: Any
) -> subprocess.CompletedProcess[str]:
    """How a program ends, whether well or not, and what it prints; `timeout`, in seconds, ends a hang."""
    return subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, check=False, timeout=timeout, **more
    )


def printed(*words: str | Path, **more: Any) -> str:
    """What a program prints that has to end well."""
    done = ended(*words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_program(path: Path, text: str, interpreter: str = "/bin/sh") -> Path:
    """These lines, as a program that can be run."""
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(0o755)
    return path
