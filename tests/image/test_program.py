"""The program in its image: Gardener's command, a read-only root, no shell, nobody's user, PID 1."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import yaml

from bench.perf.children import load
from bench.perf.program import free_port
from tests.e2e import gardener, landscape, program, weeder_objects
from tests.e2e.gardener import COMMANDS
from tests.image.container import Image, Running

pytestmark = [pytest.mark.real, pytest.mark.looptime(False), pytest.mark.timeout(60)]

Found = TypeVar("Found")
CONFIG = "/etc/dependency-watchdog/config"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
COMMAND = "/usr/local/bin/dependency-watchdog"
PROBER, WEEDER = (tuple(COMMANDS[each]) for each in (landscape.PROBER, gardener.WEEDER))


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """Gardener's two ConfigMaps as folders, readable by all as the kubelet leaves them."""
    for name, content in (("prober", program.config()), ("weeder", weeder_objects.settings())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dep-config.yaml").write_text(yaml.safe_dump(content))
    readable(tmp_path)
    return tmp_path


def readable(folder: Path) -> None:
    """Uid 65532 may read `folder`."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("name", ["dependency-watchdog", "dwd", COMMAND, "/usr/local/bin/dwd"])
def test_both_commands_start_without_a_shell(image: Image, name: str) -> None:
    done = image.run(name, "version")
    assert (done.code, done.errors) == (0, "")
    assert done.output.startswith("dependency-watchdog ")
    assert "unknown" not in done.output
    assert image.run("/bin/sh", "-c", "true").code == 127


def test_the_help_of_all_commands_is_printed(image: Image) -> None:
    for arguments in (("--help",), ("prober", "--help"), ("shoots", "--help")):
        done = image.run("dwd", *arguments)
        assert (done.code, done.errors) == (0, "")
        assert done.output


def test_it_is_nobody_without_capabilities_and_can_write_nowhere(image: Image) -> None:
    told = json.loads(
        image.python(
            "import json, os, pathlib\n"
            "status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines())\n"
            "writable = [str(d) for d, _, _ in os.walk('/') if not d.startswith('/proc')"
            " and os.access(d, os.W_OK)]\n"
            "print(json.dumps([os.getuid(), os.getgid(), os.getgroups(), status['CapEff'],"
            " status['NoNewPrivs'], writable]))"
        )
    )
    assert told == [65532, 65532, [], "0000000000000000", "1", []]


def test_what_it_prints_need_not_be_ascii(image: Image) -> None:
    assert image.python("print('Größe × 2')") == "Größe × 2\n"


@pytest.mark.parametrize("which", ["prober", "weeder"])
def test_gardeners_configmaps_are_right(image: Image, configs: Path, which: str) -> None:
    done = image.run(
        "dwd", "check-config", f"{CONFIG}/dep-config.yaml", mounts={CONFIG: configs / which}
    )
    assert done.code == 0, done.errors


@pytest.mark.parametrize("command", [PROBER, WEEDER])
def test_gardeners_command_without_its_configmap_ends_in_one_line(
    image: Image, command: tuple[str, ...]
) -> None:
    done = image.run(*command)
    assert done.code == 2
    assert done.errors.splitlines() == [
        f"{CONFIG}/dep-config.yaml: (file): cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize(("command", "which"), [(PROBER, "prober"), (WEEDER, "weeder")])
def test_gardeners_command_without_a_cluster_ends_in_one_line(
    image: Image, configs: Path, command: tuple[str, ...], which: str
) -> None:
    done = image.run(*command, mounts={CONFIG: configs / which})
    assert done.code == 2
    assert "KUBERNETES_SERVICE_HOST" in done.errors
    assert "Traceback" not in done.errors


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A simulated seed with three shoots: the ServiceAccount of a pod, and its variables."""
    account = tmp_path_factory.mktemp("account")
    with load(account, shoots=3, nodes=3):
        (account / "namespace").write_text("garden")
        readable(account)
        where = urlsplit(json.loads((account / "shoots.json").read_text())["seed"])
        yield (
            account,
            {
                "KUBERNETES_SERVICE_HOST": str(where.hostname),
                "KUBERNETES_SERVICE_PORT": str(where.port),
                "DWD_AUTH_MODE": "none",  # nobody calls its API
            },
        )


@pytest.fixture
def prober(
    image: Image, configs: Path, seed: tuple[Path, dict[str, str]], tmp_path: Path
) -> Iterator[tuple[Running, int]]:
    """Gardener's prober on that seed, and its health port; the other ports may be taken here."""
    account, variables = seed
    ports = [free_port() for _ in range(3)]
    binds = zip(("metrics", "health", "api"), ports, strict=True)
    flags = [f"--{name}-bind-addr=127.0.0.1:{port}" for name, port in binds]
    pattern = json.loads((account / "shoots.json").read_text())["pattern"]
    with image.start(
        *PROBER,
        *flags,
        f"--shoot-server-pattern={pattern}",
        log=tmp_path / "log",
        mounts={CONFIG: configs / "prober", ACCOUNT: account},
        variables=variables,
    ) as running:
        yield running, ports[1]


def eventually(found: Callable[[], Found | None], running: Running) -> Found:
    """What `found` finds at last."""
    until = time.monotonic() + 20
    while time.monotonic() < until and running.process.poll() is None:
        if (value := found()) is not None:
            return value
        time.sleep(0.02)
    raise AssertionError(running.said())


def ready(port: int) -> bool | None:
    """Whether /readyz says yes; nothing while it does not."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return True if answer.status == 200 else None
    except (URLError, ConnectionError):
        return None


def test_it_looks_after_shoots_and_as_pid_1_ends_on_sigterm(prober: tuple[Running, int]) -> None:
    running, port = prober
    eventually(lambda: ready(port), running)
    pid = eventually(running.pid, running)
    inside = [
        line.split()[-1]
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("NSpid:")
    ]
    assert inside == ["1"]
    before = time.monotonic()
    assert running.terminate(pid) == 0
    assert time.monotonic() - before < 5  # Gardener's terminationGracePeriodSeconds
    assert "Traceback" not in running.said()


def test_a_sigterm_while_it_is_still_starting_ends_it_as_well(prober: tuple[Running, int]) -> None:
    """PID 1 hears no signal that it has no handler for: the kubelet would wait, then kill."""
    running, _ = prober
    pid = eventually(running.pid, running)
    eventually(lambda: handles(pid, signal.SIGTERM), running)
    assert running.terminate(pid) == 128 + signal.SIGTERM
    assert running.said() == ""


def handles(pid: int, number: signal.Signals) -> bool | None:
    """Whether the process has a handler for this signal; nothing while it has none."""
    caught = re.findall(r"^SigCgt:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return True if int(caught[0], 16) & 1 << (number - 1) else None
