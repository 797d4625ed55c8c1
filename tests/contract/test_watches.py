"""The cached reads follow the seed, whatever happens to the watches."""

from typing import Any

import pytest

from tests.contract.adapter import impatient
from tests.contract.arena import KCM, REAL_TIME, SCALER, Told, until
from tests.e2e import objects

pytestmark = REAL_TIME


class Things:
    """One object of each kind that is watched, and what the cached reads show of it."""

    def __init__(self, arena):
        self.arena, self.admin = arena, arena.admin
        self.names = {
            "Cluster": arena.namespace,
            "Secret": objects.SECRET,
            "Machine": "machine-n",
            "Deployment": KCM.name,
            "Scaler": SCALER.name,
        }

    async def create(self):
        await self.admin.create("Cluster", objects.cluster(self.arena.namespace, {"spec": {}}))
        await self.admin.create("Secret", objects.secret("first"))
        await self.admin.create("Machine", objects.machine("n"))
        await self.admin.create("Deployment", objects.deployment(KCM.name, 1))
        await self.admin.create("Scaler", objects.scaler(SCALER.name, 1))

    async def change(self):
        hibernated = {"spec": {"shoot": {"spec": {"hibernation": {"enabled": True}}}}}
        phase = {"status": {"currentStatus": {"phase": "Failed"}}}
        await self.admin.patch("Cluster", self.arena.namespace, hibernated)
        await self.admin.patch("Secret", objects.SECRET, {"data": {"kubeconfig": "Mg=="}})
        await self.admin.patch("Machine", "machine-n", phase, status=True)
        for kind in ("Deployment", "Scaler"):
            marked = {"metadata": {"annotations": {OURS: "true"}}}
            await self.admin.patch(kind, self.names[kind], marked)

    async def delete(self):
        for kind, name in self.names.items():
            await self.admin.delete(kind, name)

    def seen(self):
        """What of each is seen: absent, first or changed."""
        seed, namespace = self.arena.seed, self.arena.namespace
        cluster, secret = seed.clusters().get(namespace), seed.secret(namespace)
        return (
            cluster and cluster.shoot.hibernation_enabled,
            secret and secret.kubeconfig,
            [machine.phase for machine in seed.machines(namespace)],
            *(
                (found := seed.dependent(namespace, ref)) and dict(found.annotations)
                for ref in (KCM, SCALER)
            ),
        )

    async def show(self, what):
        await until(lambda: self.seen() == what, f"{what}, but it is {self.seen()}")


OURS = "dependency-watchdog.gardener.cloud/ignore-scaling"
ABSENT: Any = (None, None, [], None, None)
FIRST: Any = (False, b"first", [""], {}, {})
CHANGED = (True, b"2", ["Failed"], {OURS: "true"}, {OURS: "true"})


@pytest.fixture
def things(arena):
    return Things(arena)


async def test_what_is_created_changed_and_deleted_elsewhere_shows_and_is_told(things):
    assert things.seen() == ABSENT
    for step, shown in (("create", FIRST), ("change", CHANGED), ("delete", ABSENT)):
        told = Told.by(things.arena.seed)
        await getattr(things, step)()
        await told.everything(things.arena.namespace)
        await things.show(shown)


@pytest.fixture(params=["watches_cut", "watches_stalled", "watches_expired"])
def trouble(request, monkeypatch):
    """What becomes of the watches; to be asked for before the arena: silent ones are given up soon."""
    if request.param == "watches_stalled":
        impatient(monkeypatch)
    return request.param


async def test_after_a_trouble_nothing_is_missed_nothing_stays_and_all_is_told(trouble, things):
    await things.create()
    await things.show(FIRST)
    for step, before, after in ((things.change, FIRST, CHANGED), (things.delete, CHANGED, ABSENT)):
        told = Told.by(things.arena.seed)
        async with getattr(things.arena, trouble)():
            await step()
            assert things.seen() == before
        await told.everything(things.arena.namespace)
        await things.show(after)
