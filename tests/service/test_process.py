"""The program as the system starts and ends it: signals, exit codes, and what it leaves to read."""

import os
import sys

import pytest
from structlog.testing import capture_logs

from app import __main__ as program
from app import commands
from app import main as composition
from app.core.errors import WatchdogError
from app.core.tasks import SharedLoopDied
from tests.service.lives import life
from tests.support.programs import ROOT, ended, printed

# the start of a process: files are read before anything else runs
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

FREE = [f"--{name}-bind-addr=127.0.0.1:0" for name in ("api", "metrics", "health")]
PROBER_FILE = str(ROOT / "config" / "prober.yaml")
WEEDER_FILE = str(ROOT / "config" / "weeder.yaml")


@pytest.mark.parametrize(
    ("redirection", "said"),
    [
        (">&-", "dwd: the output cannot be written: it is closed\n"),
        (">/dev/full", "dwd: the output cannot be written: No space left on device\n"),
        ("| true", ""),
    ],
)
def test_what_cannot_be_printed_ends_in_one_line_and_no_traceback(redirection, said):
    line = f"sleep 0.2; exec {sys.executable} -m app version"
    shell = ["bash", "-c", f"set -o pipefail; ({line}) {redirection}"]
    done = ended(*shell)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["version"], 0, "dependency-watchdog "),
        (["--help"], 0, "Exit codes: 0 done; 2 no command"),
        (["prober", "--help"], 0, "--config-file"),
        (["check-config", PROBER_FILE], 0, "the prober file is valid"),
        ([], 2, "command"),
        (["probr"], 2, "did you mean prober"),
        (["prober"], 2, "config-file"),
        (["weeder"], 2, "config-file"),
        (["serve"], 2, "weeder-config-file"),
        (["prober", "--config-file=/nowhere/at/all.yaml"], 2, "/nowhere/at/all.yaml"),
        (["check-config", WEEDER_FILE], 0, "the weeder file is valid"),
        (["demo", "--nodes=1"], 2, "--nodes"),
        (["demo", "--list-scenarios"], 0, "story"),
        (["demo", "--scenario=storry"], 2, "the nearest is story"),
        (["demo", "--scenario=/nowhere/at/all.yaml"], 2, "/nowhere/at/all.yaml"),
        (
            ["demo", *FREE, "--log-file=/nowhere/at/all"],
            2,
            "--log-file: cannot be written: No such",
        ),
        (["check-config", "/nowhere/at/all.yaml"], 2, "/nowhere/at/all.yaml"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_exit_codes_and_what_is_said(argv, code, said, capsys, monkeypatch):
    for name in [name for name in os.environ if name.startswith("DWD_")]:
        monkeypatch.delenv(name)
    assert program.run(argv) == code
    read = capsys.readouterr()
    assert said in (read.err if code else read.out)
    assert "Traceback" not in read.err


def test_it_opens_as_many_files_as_the_hard_limit_allows():
    """Container runtimes have a soft limit of 1,024; 1,000 shoots take as many connections."""
    lines = [
        "import resource",
        "from app import __main__ as program",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))",
        "async def work(): print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])",
        "program._run(work())",
    ]
    assert printed(sys.executable, "-c", "\n".join(lines)) == "4096\n"


@pytest.mark.parametrize("missing", ["app.simulation", "cryptography"])
@pytest.mark.parametrize("words", [["--list-scenarios"], FREE], ids=["list", "run"])
def test_where_the_demo_is_not_installed_one_line_says_what_to_do(
    missing, words, capsys, monkeypatch
):
    for name in [name for name in sys.modules if name.startswith("app.simulation")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    code = program.run(["demo", *words])
    if missing == "cryptography" and words != FREE:
        assert code == 0, "a list of scenarios needs no certificates"
        return
    assert code == 1
    assert capsys.readouterr().err == (
        "dwd: the demo is not installed here, and in no image: "
        "run `make demo`, or pip install '.[demo]', in a checkout\n"
    )


def test_the_exit_code_is_that_of_the_process(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["dwd", "prober"])
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == commands.EXIT_WRONG


def test_a_shared_loop_that_dies_ends_the_process_with_1(capsys):
    async def breaks():
        raise ValueError("a bug")

    async def work():
        found = life()

        async def begin():
            _ = found.core.tasks.shared(breaks, "doomed")

        object.__setattr__(found.service._cluster, "begin", begin)
        await composition._run(found.service)

    with capture_logs():
        assert program._run(work()) == program.EXIT_DIED
    assert capsys.readouterr().err == "dwd: the doomed loop ended: a bug\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SharedLoopDied("the events loop ended"), "the events loop ended: it returned"),
        (WatchdogError("cannot run"), "cannot run"),
    ],
    ids=["a loop", "anything else"],
)
def test_what_can_be_foreseen_is_one_line_and_1(error, said, capsys):
    async def work():
        raise error

    assert program._run(work()) == program.EXIT_DIED
    assert capsys.readouterr().err == f"dwd: {said}\n"


def test_what_cannot_be_foreseen_keeps_its_traceback():
    async def work():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        program._run(work())


def test_an_interrupt_before_the_signals_are_ours_is_a_clean_end():
    async def work():
        raise KeyboardInterrupt

    assert program._run(work()) == commands.EXIT_DONE
