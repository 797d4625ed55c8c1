"""A shoot whose nodes are kwok's.

Where kwok stops, all Leases expire. The real kube-controller-manager runs beside it and must not get to mark a node.
Kubeconfigs of kubectl and kubeadm are those of `tests/contract/test_kubectl.py`.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
import yaml

from app.core.model import workloads as ann
from tests.e2e import objects
from tests.e2e.controlplane import ADMIN, ControlPlane
from tests.e2e.kubelets import Kubelets
from tests.e2e.objects import CA, KCM, MCM, Json
from tests.e2e.opponent import GRACE, Opponent, manager_in
from tests.e2e.opponent_nodes import Observer, conditions
from tests.e2e.opponent_play import LIMIT
from tests.e2e.parallel import scenario
from tests.e2e.processes import Child, eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage

found = manager_in(os.environ.get("KUBEBUILDER_ASSETS"))
if found is None or not found.with_name("kwok").is_file():
    # before the scenarios are collected: one that is skipped later would be played all the same
    pytest.skip(
        "kube-controller-manager and kwok are not beside kube-apiserver: KUBEBUILDER_ASSETS="
        "$(hack/kube-assets etcd kube-apiserver kube-controller-manager kubectl kwok)",
        allow_module_level=True,
    )
MANAGER = found

COUNTS = {KCM: 1, MCM: 3, CA: 2}
SETTLED = 20  # seconds until each Lease has moved before the watchdog's eyes
PERIOD = 10.0  # seconds between two renewals: kwok stops at any moment of it
OUTAGE = 65  # seconds; the manager would have marked the last node after 50
AFTERWARDS = 20  # seconds for which a manager that has come back is watched: it looks every 5 s


class Kwok(Kubelets):
    """kwok in the place of the kubelets: a process that keeps Leases and statuses of all nodes that there are."""

    def __init__(
        self, plane: ControlPlane, names: Iterable[str], duration: int, randomness: random.Random
    ) -> None:
        super().__init__(plane, names, duration, randomness)
        folder = plane.child.log.parent
        own = folder / f"kwok-{plane.name}"
        own.mkdir(exist_ok=True)
        config = objects.kubeconfig(plane.name, plane.url, plane.authority.pem, ADMIN)
        (own / "kubeconfig").write_text(config)
        (own / "stages.yaml").write_text(yaml.safe_dump(ready_stage()))
        command = [
            str(MANAGER.with_name("kwok")),
            f"--kubeconfig={own / 'kubeconfig'}",
            f"--config={own / 'stages.yaml'}",
            "--manage-all-nodes",
            f"--node-lease-duration-seconds={duration}",
        ]
        # its log has a line for each renewal; it is at home in `own`, where no ~/.kwok is
        environment = {"PATH": os.environ["PATH"], "HOME": str(own)}
        self.child = Child(own.name, [*command, "--v=WARN"], folder, environment=environment)

    async def start(self) -> None:
        await self.child.start()

    async def stop(self) -> None:
        await self.child.kill()
        await super().stop()


def ready_stage() -> Json:
    """What kwok is told to do: a node that is not Ready becomes so."""
    ready = '.status.conditions[] | select(.type == "Ready") | .status'
    status = {"conditions": conditions("{{ Now }}", "{{ Now }}")}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "ready"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Node"},
            "selector": {
                "matchExpressions": [{"key": ready, "operator": "NotIn", "values": ["True"]}]
            },
            "next": {"statusTemplate": json.dumps(status)},
        },
    }


class Play:
    """A shoot of kwok's nodes that are all ready, its manager, and a watchdog for which it is healthy."""

    def __init__(self, stage: Stage, manager: Opponent, seen: Observer, prober: Program) -> None:
        self.stage, self.manager, self.seen, self.prober = stage, manager, seen, prober
        self.size = len(stage.shoot.nodes)
        self.stopped = 0.0

    async def is_protected_before_a_node_is_marked(self) -> None:
        """The outage lasts until all nodes would have been marked."""
        down = await self.stage.until_down(within=50)
        await eventually(self.manager_gone, "the manager is gone", within=35)
        gone = self.manager.lives[0].gone or time.time()
        await asyncio.sleep(max(self.stopped + OUTAGE - time.time(), 0))
        assert not self.seen.marked(self.stopped)
        assert {name: each.saved for name, each in down.items()} == {
            name: str(count) for name, count in COUNTS.items()
        }
        assert set((await self.stage.shoot.replicas()).values()) == {0}, "as long as it lasts"
        self.stage.figure(
            f"{self.size} nodes of kwok, the manager was gone {gone - self.stopped:.1f} s after kwok; "
            f"{await self.a_probe()} during the outage"
        )

    async def is_released_with_all_that_it_had(self) -> None:
        """The counts are those from before, nothing of ours is left, and the manager that is back marks nobody."""
        back = time.time()
        up = await self.stage.until_up()
        assert {name: each.replicas for name, each in up.items()} == COUNTS
        assert not any(key in ann.OURS for each in up.values() for key in each.annotations)
        await eventually(self.manager.healthy, "the manager is healthy", within=30)
        await asyncio.sleep(AFTERWARDS)
        assert not self.seen.marked(back)
        assert self.seen.clean(self.size)
        await self.stage.until_state(self.prober, "Healthy")

    async def manager_gone(self) -> bool:
        return not self.manager.running

    async def a_probe(self) -> str:
        """How long the last one took."""
        probe = (await self.prober.shoot(self.stage.shoot.namespace))["probe"]
        return f"a probe took {1000 * probe['durationSeconds']:.0f} ms"


def kwok_of(stage: Stage) -> Child:
    """The process that keeps the shoot's nodes."""
    assert isinstance(stage.shoot.kubelets, Kwok)
    return stage.shoot.kubelets.child


@asynccontextmanager
async def played(stage: Stage, *, nodes: int) -> AsyncIterator[Play]:
    """Everything is calm, at a random moment between two renewals."""
    api = stage.plane.api
    async with Opponent(MANAGER, stage.folder, stage) as manager, Observer(api) as seen:
        # with its default of 20 a second, the first taint is not off 1,000 nodes within 90 s
        manager.child.command += ["--kube-api-qps=200", "--kube-api-burst=400"]
        await stage.shoot.build(nodes=nodes, replicas=COUNTS, grace=GRACE, kubelets=Kwok)

        async def all_ready() -> bool:
            return seen.clean(nodes)

        await kwok_of(stage).ready(all_ready, within=90)
        play = Play(stage, manager, seen, await stage.healthy())
        await asyncio.sleep(SETTLED + random.uniform(0, PERIOD))
        stage.figure(f"{nodes} nodes of kwok, all well: {await play.a_probe()}")
        play.stopped = time.time()
        yield play
        assert seen.unbroken, "the watches broke: marks may have gone unseen"
        assert not manager.deaths, f"the manager ended by itself: {manager.deaths}"


@scenario(limit=LIMIT)
async def test_a_shoot_with_1000_nodes_is_protected_before_one_is_marked_and_released(
    stage: Stage,
) -> None:
    async with played(stage, nodes=1000) as play:
        kwok_of(stage).pause()
        await play.is_protected_before_a_node_is_marked()
        kwok_of(stage).resume()
        await play.is_released_with_all_that_it_had()
