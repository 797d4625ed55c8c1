"""`--port-forward`: kubectl is begun, led to the leader, and ended with the command, however that ends."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from app.cli.client import ApiCall, Client
from app.cli.kubectl import Kubectl
from app.cli.problems import CommandFailed
from app.cli.tokens import NoToken
from app.cli.transports import ForwardedTransport
from app.core.config.values import NamespacedName, origin
from tests.cli import examples
from tests.cli.conftest import run, started
from tests.cli.server import FakeApi, Reply, page, problem, standby
from tests.support.programs import write_program

# a child is begun: what the standard library does there is not ours
pytestmark = pytest.mark.blocking

SHOOTS = "GET /shoots"
DEPLOYMENT = "deployment/dwd-prober"


class Cluster:
    """Pods that kubectl leads to, and what was asked of kubectl."""

    def __init__(self, folder):
        self.log = folder / "log"
        self.log.touch()
        self.pods = {}
        ours = Path(__file__).parent / "kubectl.py"
        write_program(folder / "kubectl", f'exec {sys.executable} -S {ours} "$@"')
        self.folder = folder
        self.more = {}

    @property
    def environ(self):
        pods = {name: api.port for name, api in self.pods.items()}
        return {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "FAKE_PODS": json.dumps(pods),
            "FAKE_LOG": str(self.log),
            **self.more,
        }

    def said(self, word):
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line[2:] for line in lines if line[1] == word]

    def running(self):
        """The processes that still are there."""
        pids = {json.loads(line)[0] for line in self.log.read_text().splitlines()}
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def run(self, *words):
        return run(*words, "--port-forward=garden/dwd-prober", environ=self.environ)

    def start(self, *words):
        """The same as a process of its own."""
        return started(*words, "--port-forward=garden/dwd-prober", **self.environ)


@pytest.fixture
def cluster(tmp_path, api):
    found = Cluster(tmp_path)
    found.pods[DEPLOYMENT] = api
    yield found
    assert found.running() == [], "no kubectl outlives its command"


def test_a_pod_of_the_deployment_is_asked(cluster, api):
    api.on(SHOOTS, page())
    ran = cluster.run("shoots")
    assert (ran.code, ran.out, ran.err) == (0, "no shoots\n", "")
    arguments = [["port-forward", "--address=127.0.0.1", "--namespace=garden", DEPLOYMENT, ":8080"]]
    assert cluster.said("begins") == arguments


def test_kubeconfig_context_and_port_are_kubectls_too(cluster, api, tmp_path):
    api.on(SHOOTS, page())
    config = tmp_path / "config"
    config.write_text(
        "{current-context: a, contexts: [{name: b, context: {user: u}}], users: [{name: u, user: {token: t}}]}"
    )
    flags = (f"--kubeconfig={config}", "--context=b", "--server=http://x:9999")
    assert cluster.run("shoots", *flags).code == 0
    (arguments,) = cluster.said("begins")
    assert {f"--kubeconfig={config}", "--context=b", ":9999"} <= set(arguments)
    assert api.asked[0].headers["Authorization"] == "Bearer t"
    assert "t" not in arguments


def test_a_kubeconfig_without_a_token_is_for_kubectl_alone(cluster, api, tmp_path):
    api.on(SHOOTS, problem(401, "unauthenticated", "Nobody", "send a token"))
    config = tmp_path / "config"
    config.write_text(
        "{current-context: b, contexts: [{name: b, context: {user: u}}], users: [{name: u, user: {exec: {}}}]}"
    )
    ran = cluster.run("shoots", f"--kubeconfig={config}")
    assert ran.code == 5
    assert (
        "no token was sent: user u logs in through a plugin (exec), which is never run" in ran.err
    )


def test_the_leaders_pod_is_asked_where_another_one_leads(cluster, api):
    api.on(SHOOTS, standby("10.0.0.7:8080"))
    with FakeApi() as leader:
        leader.on(SHOOTS, page())
        cluster.pods["pod/dwd-prober-6d5f-abcde"] = leader
        ran = cluster.run("shoots")
        assert (ran.code, ran.err) == (0, "")
    assert [each[-2] for each in cluster.said("begins")] == [
        DEPLOYMENT,
        "pod/dwd-prober-6d5f-abcde",
    ]
    assert len(cluster.said("ends")) == 2


@pytest.mark.parametrize("line", ["shoots", "api shoots"])
def test_the_start_of_kubectl_is_no_part_of_the_time_for_an_answer(line, cluster, api):
    api.on(SHOOTS, page())
    kubectl = cluster.folder / "kubectl"
    kubectl.write_text(kubectl.read_text().replace("exec ", "sleep 2; exec "))
    ran = cluster.run(*line.split(), "--timeout=1500ms")
    assert (ran.code, ran.err) == (0, "")


def test_the_service_of_the_other_loop_is_asked(cluster, api):
    line = "POST /weeders/shoot--a--b/etcd"
    peer = "http://dwd-weeder.garden.svc:9090"
    api.on(line, problem(503, "loop-not-here", "Elsewhere", "in another process", peer=peer))
    with FakeApi() as weeder:
        weeder.on(line, Reply(examples.RECOVERY, 202))
        cluster.pods["service/dwd-weeder"] = weeder
        assert cluster.run("weed", "shoot--a--b", "etcd").code == 0
    assert cluster.said("begins")[1][-2:] == ["service/dwd-weeder", ":9090"]


def test_a_peer_elsewhere_is_told_apart(cluster, api):
    api.on(SHOOTS, problem(503, "loop-not-here", "Elsewhere", "x", peer="http://10.0.0.1"))
    ran = cluster.run("shoots")
    assert ran.code == 6
    assert "give --port-forward with the Deployment of the other loop" in ran.err


def test_a_leader_whose_pod_is_gone_is_said_in_kubectls_words(cluster, api):
    api.on(SHOOTS, standby(None, "gone_1"))
    ran = cluster.run("shoots")
    assert ran.code == 6
    said = '; there: kubectl port-forward to pod/gone fails: error: pods "pod/gone" not found [31m'
    assert said in ran.err


@pytest.mark.looptime(False)
async def test_after_a_leaders_pod_that_is_gone_the_deployment_is_asked_again(cluster, api):
    api.on(SHOOTS, standby(None, "gone_1"), page())
    of = NamespacedName("garden", "dwd-prober")
    kubectl = Kubectl(str(cluster.folder / "kubectl"), cluster.environ)
    transport = ForwardedTransport(origin(api.url), kubectl, of)
    async with Client(transport, NoToken(), True, timeout=5.0) as client:
        with pytest.raises(CommandFailed) as caught:
            await client.ask(ApiCall("GET", "shoots"))
        assert caught.value.passing, "as with --watch, it is asked again"
        await client.ask(ApiCall("GET", "shoots"))
    asked = [each[-2] for each in cluster.said("begins")]
    assert asked == [DEPLOYMENT, "pod/gone", DEPLOYMENT]


def test_a_leader_that_is_no_pod_is_not_asked_for(cluster, api):
    api.on(SHOOTS, standby(None, "--kubeconfig=/evil_1"))
    assert cluster.run("shoots").code == 6
    assert len(cluster.said("begins")) == 1


def test_a_deployment_that_is_not_there_is_said_in_kubectls_words(cluster):
    cluster.pods.clear()
    ran = cluster.run("shoots")
    assert ran.code == 1
    assert ran.err.startswith("dwd: kubectl port-forward to deployment/dwd-prober fails: error: ")


def test_without_kubectl_it_is_a_mistake(tmp_path):
    ran = run("shoots", "--port-forward=a/b", environ={"PATH": str(tmp_path)})
    assert (ran.code, ran.err) == (2, "dwd: --port-forward: needs kubectl, which is not in PATH\n")


def test_a_kubectl_that_cannot_run_is_said(tmp_path):
    program = tmp_path / "kubectl"
    program.write_bytes(b"\x00no program")
    program.chmod(0o755)
    ran = run("shoots", "--port-forward=a/b", environ={"PATH": str(tmp_path)})
    assert (ran.code, "cannot be started: Exec format error" in ran.err) == (1, True)


def test_a_kubectl_that_does_not_want_to_end_is_killed(cluster, api):
    api.on(SHOOTS, page())
    cluster.more["FAKE_STUBBORN"] = "1"
    assert cluster.run("shoots").code == 0
    assert cluster.said("ends") == []


def test_what_kubectl_says_of_each_connection_fills_no_pipe(cluster, api):
    pages = [page(following=f"t{number}") for number in range(400)]
    closing = {"Connection": "close"}  # a connection for each page: 90 kB of words
    api.on(SHOOTS, *(Reply(each, headers=closing) for each in pages), page())
    assert cluster.run("shoots").code == 0


@pytest.mark.parametrize(
    ("number", "code", "wrapped"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGTERM, 143, False),
        (signal.SIGKILL, -9, False),
        (signal.SIGHUP, 129, True),
        (None, 0, True),
    ],
)
def test_kubectl_and_what_a_wrapper_of_it_has_started_end_with_the_command_whatever_ends_that(
    number, code, wrapped, cluster, api
):
    if wrapped:
        program = cluster.folder / "kubectl"
        program.write_text(program.read_text().replace("exec ", "") + "exit $?\n")
    api.on(SHOOTS, page())
    process = cluster.start("shoots", *(["--watch"] if number else []))
    assert process.stdout.readline() == "no shoots\n"
    if number:
        process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (code, "")
    deadline = time.monotonic() + 10
    while cluster.running() and time.monotonic() < deadline:
        time.sleep(0.02)  # the kernel ends it, and whoever took an orphan in has to bury it
