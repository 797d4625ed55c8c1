"""The trees whose program is measured: this one, and another commit beside it."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.perf.children import ROOT


@dataclass(frozen=True, slots=True)
class Side:
    """One tree."""

    name: str
    root: Path
    commit: str
    """Short; with `+` where the tree has changes that are not committed."""


def here() -> Side:
    """This tree, as it is."""
    changed = "+" if _git("status", "--porcelain", "--", "app") else ""
    return Side("here", ROOT, _git("rev-parse", "--short", "HEAD") + changed)


@contextmanager
def sides(against: str | None) -> Iterator[tuple[Side, ...]]:
    """This tree, and where there is one the commit `against` in a worktree of its own, for as long as it is needed."""
    if against is None:
        yield (here(),)
        return
    commit = _git("rev-parse", "--short", f"{against}^{{commit}}")
    folder = Path(tempfile.mkdtemp(prefix="dwd-bench-"))
    try:
        _git("worktree", "add", "--detach", "--force", str(folder / "tree"), commit)
        yield here(), Side("other", folder / "tree", commit)
    finally:
        _git("worktree", "remove", "--force", str(folder / "tree"))
        shutil.rmtree(folder, ignore_errors=True)


def _git(*words: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own words
        ["git", "-C", str(ROOT), *words],  # noqa: S607 - whichever git there is
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()
