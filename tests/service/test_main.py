"""The composition root, in this process: the prober against a seed over TLS; ended by signals."""

import asyncio
import json
import signal
from contextlib import asynccontextmanager

import pytest

from app import commands
from app import main as composition
from app.core.clock import Clock
from app.core.errors import ConfigurationError, LeadershipLost
from app.core.tasks import SharedLoopDied, Tasks
from app.realcluster import LEASES
from app.service import service
from app.simulation.builders import World
from app.simulation.server import Loopback, SimulatedServers
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from tests.core.kube.server import until
from tests.service.lives import SERVERS, get

# the start of a process: files are read before anything else runs
pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

FREE = [f"--{name.lower()}-bind-addr=127.0.0.1:0" for name in SERVERS]
QUICK = [
    "--enable-leader-election",
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1s",
    "--leader-elect-retry-period=200ms",
]
UNHURRIED = ["--kube-api-qps=1000", "--kube-api-burst=1000"]
"""No test waits for the request budget."""
PROBER_FILE = """
kubeConfigSecretName: secret
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {level: 0}
  scaleDown: {level: 0}
- ref: {apiVersion: example.org/v1, kind: Thing, name: thing}
  optional: true
  scaleUp: {level: 0}
  scaleDown: {level: 0}
"""


WEEDER_FILE = """
servicesAndDependantSelectors:
  kube-apiserver:
    podSelectors:
    - matchLabels: {role: scheduler}
"""


PROBER_LEASE, WEEDER_LEASE = LEASES.values()


class Seed:
    """The API server of a seed without shoots, and without things."""

    def __init__(self):
        clock, place = Clock.system(), Loopback()
        self._tasks = Tasks(clock)
        self.world = World(clock, self._tasks, seed=1, latency=0.0, place=place)
        self.servers = SimulatedServers(self.world, place)

    async def stop(self):
        await self.servers.stop()
        await self._tasks.stop()

    def lease(self, name):
        return self.world.store.find(ObjectKey("Lease", "garden", name))

    @property
    def holders(self):
        """Who holds each Lease."""
        known = {name: self.lease(name) for name in (PROBER_LEASE, WEEDER_LEASE)}
        return {name: lease["spec"]["holderIdentity"] for name, lease in known.items() if lease}

    @property
    def holder(self):
        """Of the prober's."""
        return self.holders.get(PROBER_LEASE)

    def taken_by(self, holder):
        """Another instance takes the prober's Lease, without asking; for a second, where there is none."""
        key, spec = ObjectKey("Lease", "garden", PROBER_LEASE), {"holderIdentity": holder}
        if self.lease(PROBER_LEASE) is None:
            body = {"apiVersion": "coordination.k8s.io/v1"}
            self.world.store.create(key, body | {"spec": {"leaseDurationSeconds": 1, **spec}})
        else:
            self.world.store.patch(key, {"spec": spec})

    @property
    def writes(self):
        """What was written, or was meant to be."""
        asked = {(each.verb, each.what) for each in self.world.requests.counts}
        return {each for each in asked if each[0] not in {"get", "list", "watch"}} - {REVIEW}

    @property
    def reviewed(self):
        """Whether it was asked about rights."""
        return self.world.requests.total(verb="create", what="selfsubjectaccessreviews") > 5


REVIEW = ("create", "selfsubjectaccessreviews")


class Process:
    """What runs, as the outside sees it."""

    def __init__(self, work, capsys):
        self._capsys = capsys
        self.out = self._err = ""
        self.task = asyncio.ensure_future(work)

    @property
    def lines(self):
        """What was logged until now."""
        read = self._capsys.readouterr()
        self.out += read.out
        self._err += read.err
        return [json.loads(line) for line in self._err.splitlines()]

    def events(self, level):
        return [line["message"] for line in self.lines if line["level"] == level]

    def addresses(self):
        found = [line for line in self.lines if line["message"] == "serving"]
        return {each["what"]: tuple(each["address"].rsplit(":", 1)) for each in found}

    async def serves(self):
        """Waits until everything is served; fails where the process has ended before."""
        await until(lambda: len(self.addresses()) == 3 or self.task.done())
        if self.task.done():
            await self.task
        await until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)

    async def get(self, server, path):
        return await get(self.addresses()[server], path)

    async def end(self, number=signal.SIGTERM):
        signal.raise_signal(number)
        await self.task


def parsed(*words):
    """The command of this command line."""
    command = commands.parse(words, {})
    assert not isinstance(command, commands.Help)
    return command


@pytest.fixture
async def process(capsys, monkeypatch):
    """Starts a process; it is ended with the test."""
    # its seed lives in the same loop, on a machine that may be busy; what a stop may take is held in test_stop
    monkeypatch.setattr(service, "_STOP_CLUSTER", 5.0)
    begun = []

    def begin(argv, environ=None):
        command = parsed(*argv, *FREE)
        work = composition.run_loops(command.settings, command.warnings, environ or {})
        begun.append(Process(work, capsys))
        return begun[-1]

    yield begin
    for each in begun:
        each.task.cancel()
        await asyncio.gather(each.task, return_exceptions=True)


@pytest.fixture
def prober_file(tmp_path):
    path = tmp_path / "prober.yaml"
    path.write_text(PROBER_FILE)
    return path


@pytest.fixture
def weeder_file(tmp_path):
    path = tmp_path / "weeder.yaml"
    path.write_text(WEEDER_FILE)
    return path


@pytest.fixture
def on_seed(process, tmp_path):
    """Starts a process with these arguments on this seed, and waits until it serves."""

    @asynccontextmanager
    async def begin(seed, *argv):
        await seed.servers.start()
        config = tmp_path / "config"
        config.write_text(seed.servers.kubeconfig())
        found = process([*argv, f"--kubeconfig={config}", *UNHURRIED])
        await found.serves()
        yield found
        if not found.task.done():
            await found.end()
        await seed.stop()

    return begin


@pytest.fixture
def prober(on_seed, prober_file):
    return lambda seed, *flags: on_seed(seed, "prober", f"--config-file={prober_file}", *flags)


@pytest.fixture
def weeder(on_seed, weeder_file):
    return lambda seed, *flags: on_seed(seed, "weeder", f"--config-file={weeder_file}", *flags)


@pytest.fixture
def serve(on_seed, prober_file, weeder_file):
    files = (f"--prober-config-file={prober_file}", f"--weeder-config-file={weeder_file}")
    return lambda seed, *flags: on_seed(seed, "serve", *files, *flags)


async def status_of(found):
    return json.loads((await found.get("API", "/api/v1/status"))[1])


@pytest.mark.parametrize(("loop", "lease"), [("prober", PROBER_LEASE), ("weeder", WEEDER_LEASE)])
async def test_a_loop_takes_its_own_lease_is_ready_and_gives_it_back_at_its_stop(
    prober, weeder, loop, lease
):
    seed, begin = Seed(), {"prober": prober, "weeder": weeder}[loop]
    async with begin(seed, *QUICK) as found:
        await until(lambda: seed.holders.get(lease))
        await until(lambda: seed.reviewed)
        assert await found.get("health", "/livez") == (200, "ok")
        code, ready = await found.get("health", "/readyz?verbose")
        assert code == 200, ready
        status = await status_of(found)
        assert status["role"] == "leader"
        leaders = {name: each["identity"] for name, each in status["leaders"].items()}
        assert leaders == {loop: seed.holders[lease]}
    assert seed.holders == {lease: ""}, "a standby need not wait, and nothing else was taken"
    assert not found.events("critical"), "a clean stop is no death of the election"
    assert not found.events("error")
    assert found.events("info")[-1] == "stopped"


async def test_rights_are_asked_for_as_the_seed_serves_the_kinds_and_guessed_where_it_does_not(
    prober,
):
    seed, missing = Seed(), "a right is missing that the configuration needs"
    for verb, what in (("patch", {"deployments", "things"}), ("update", {"leases"})):
        lacking = Trouble(forbidden=True, verbs=frozenset({verb}), what=frozenset(what))
        seed.world.faults.seed_trouble(lacking)
    async with prober(seed) as found:
        await until(lambda: found.events("error").count(missing) == 2)
        rights = {each["right"] for each in found.lines if each["message"] == missing}
        assert rights == {"patch deployments", "patch things"}, "there is no election"
        assert not [each for each in seed.writes if "leases" in each]


async def test_a_dry_run_takes_part_in_no_election_and_writes_nothing(prober):
    seed = Seed()
    async with prober(seed, *QUICK, "--dry-run") as found:
        await until(lambda: seed.reviewed)
        status = await status_of(found)
        assert (status["dryRun"], status["role"]) == (True, "leader")
    assert seed.writes == set()
    assert seed.holders == {}


async def test_a_lease_that_another_one_took_ends_the_process(prober):
    seed = Seed()
    async with prober(seed, *QUICK) as found:
        await until(lambda: seed.holder)
        seed.taken_by("another")
        with pytest.raises(SharedLoopDied, match="the leader election loop ended") as death:
            await found.task
    assert isinstance(death.value.__cause__, LeadershipLost)
    assert seed.holder == "another", "what another one holds is not given back"


async def test_both_loops_in_one_process_take_the_weeders_lease_after_the_probers_and_give_both_back(
    serve,
):
    """While another one holds the prober's, the weeder's is free, and not taken."""
    seed = Seed()
    seed.taken_by("another")
    async with serve(seed, *QUICK) as found:
        await until(lambda: seed.holders.get(WEEDER_LEASE))
        assert seed.holders[WEEDER_LEASE] == seed.holders[PROBER_LEASE] != "another"
        began = [seed.lease(each)["spec"]["acquireTime"] for each in (PROBER_LEASE, WEEDER_LEASE)]
        assert began == sorted(began)
        code, ready = await found.get("health", "/readyz?verbose")
        assert code == 200, ready
        assert list((await status_of(found))["leaders"]) == ["prober", "weeder"]
    assert seed.holders == {PROBER_LEASE: "", WEEDER_LEASE: ""}
    assert found.events("info")[-1] == "stopped"


# Mistakes.


async def test_outside_a_cluster_and_without_a_kubeconfig_it_does_not_start(process, prober_file):
    with pytest.raises(ConfigurationError, match="--kubeconfig"):
        await process(["prober", f"--config-file={prober_file}"]).task


async def test_a_file_that_is_not_there_is_a_mistake_before_anything_is_served(process, tmp_path):
    found = process(["prober", f"--config-file={tmp_path / 'none.yaml'}"])
    with pytest.raises(ConfigurationError, match=r"none\.yaml"):
        await found.task
    assert found.addresses() == {}
