"""What one process, and the machine, has used: read from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12
"""Fields of /proc/PID/stat, counted from behind the name of the program."""
_IDLE, _IOWAIT = 3, 4
_KIB_A_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """One process at one instant; all its threads, no other process."""

    cpu: float
    """Seconds in user and kernel mode since it began."""
    rss: float
    """MiB."""
    peak: float
    """The most that `rss` ever was."""


def cpu_of_stat(text: str) -> float:
    """Seconds, from the content of /proc/PID/stat; the program's name in it may be anything."""
    fields = text.rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS


def memory_of_status(text: str) -> tuple[float, float]:
    """VmRSS and VmHWM in MiB, from the content of /proc/PID/status; KeyError where it has ended."""
    found = {
        name: int(rest.split()[0]) / _KIB_A_MIB
        for name, _, rest in (line.partition(":") for line in text.splitlines())
        if name in {"VmRSS", "VmHWM"}
    }
    return found["VmRSS"], found["VmHWM"]


def idle_of_stat(text: str) -> float:
    """Seconds for which any core had nothing to do, from the content of /proc/stat."""
    fields = text.splitlines()[0].split()[1:]
    return (int(fields[_IDLE]) + int(fields[_IOWAIT])) / _TICKS


def of(pid: int) -> Usage:
    """What the process has used so far; OSError where there is none."""
    folder = Path("/proc", str(pid))
    rss, peak = memory_of_status((folder / "status").read_text())
    return Usage(cpu_of_stat((folder / "stat").read_text()), rss, peak)


def machine_idle() -> float:
    """Seconds for which any core of the machine had nothing to do."""
    return idle_of_stat(Path("/proc/stat").read_text())
