"""Two replicas and kubectl write at the same time, and answers get lost: nothing that was acknowledged is.

Each of a thousand namespaces has its own order of what people do there, on virtual time, all of them in one world.
"""

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

from app.core.errors import Conflict, EntryChanged, NotFound, Unreachable
from app.core.model.overrides import API_PAUSE, Pause
from app.core.model.scaling_runs import ScaleSpec
from app.simulation.store import ObjectKey
from tests.core.overrides.replicas import DOWN

NAMESPACES, ACTS = 1_000, 4
LOST = 0.1


def losing(objects, random):
    """Loses requests before they are carried out, and answers afterwards."""
    for method in ("create", "change", "delete", "read"):

        def lossy(real):
            async def send(*args, **kwargs):
                await asyncio.sleep(random.random())
                if random.random() < LOST:
                    raise Unreachable("cut on the way there")
                found = await real(*args, **kwargs)
                await asyncio.sleep(random.random())
                if random.random() < LOST:
                    raise Unreachable("cut on the way back")
                return found

            return send

        setattr(objects, method, lossy(getattr(objects, method)))


class Acknowledged:
    """What callers were told, and what the store has seen."""

    def __init__(self, world):
        self.world = world
        self.pauses: list[Pause] = []
        self.ended: list[Pause] = []
        self.requests: list[tuple[str, str]] = []
        self.seen: defaultdict[ObjectKey, list[Any]] = defaultdict(list)
        real = world.store._put

        def put(happened, key, body, *rest):
            made = real(happened, key, body, *rest)
            self.seen[key].append(made)
            return made

        world.store._put = put

    def was_there(self, pause):
        key = ObjectKey("Pause", pause.id.namespace, API_PAUSE)
        return any(
            each["metadata"]["resourceVersion"] == pause.id.version
            and each["spec"]["reason"] == pause.reason
            for each in self.seen[key]
        )


async def act(replica, namespace, word, told):
    """One call of the API; what nobody knows the end of, or is refused, is no promise."""
    try:
        match word:
            case "pause":
                wish = replica.wish(reason=f"wish {len(told.pauses)}")
                told.pauses.append((await replica.service.set_pause(namespace, wish)).after)
            case "resume":
                ended = await replica.service.end_pause(namespace, API_PAUSE, by="bob")
                if ended is not None:
                    told.ended.append(ended)
            case "scale":
                made = await replica.service.request_scaling(
                    namespace, ScaleSpec(DOWN, "r", "alice", 60.0)
                )
                told.requests.append((namespace, made.id.name))
            case _:
                raise AssertionError(word)
    except (EntryChanged, Unreachable, Conflict):
        return


def kubectl(world, namespace, random):
    try:
        match random.choice(("create", "edit", "delete")):
            case "create":
                world.people.create("Pause", namespace, API_PAUSE, reason="by kubectl")
            case "edit":
                world.people.edit("Pause", namespace, API_PAUSE, reason="changed by kubectl")
            case _:
                world.people.delete("Pause", namespace, API_PAUSE)
    except (Conflict, NotFound):
        return


async def test_nothing_that_was_acknowledged_is_lost_whatever_the_order(lab):
    world, random = lab.world(watch_delay=0.5), Random(19)
    replicas = [lab.replica(world, leads=first) for first in (True, False)]
    await lab.clock.sleep(2)
    for each in replicas:
        losing(each.pauses, random)
        losing(each.requests, random)
    told = Acknowledged(world)

    async def people(number):
        namespace = f"shoot--local--{number}"
        await asyncio.sleep(random.random() * 100)
        acts = []
        for _ in range(ACTS):
            await asyncio.sleep(random.random() * 2)
            word = random.choice(("pause", "pause", "resume", "scale", "kubectl"))
            if word == "kubectl":
                kubectl(world, namespace, random)
            else:
                acts.append(
                    asyncio.ensure_future(act(random.choice(replicas), namespace, word, told))
                )
        await asyncio.gather(*acts)

    await asyncio.gather(*(people(number) for number in range(NAMESPACES)))
    assert min(len(told.pauses), len(told.ended), len(told.requests)) > 100
    assert [each for each in told.pauses if not told.was_there(each)] == []
    uids = {each["metadata"]["uid"] for each in world.store.list("Pause")}
    assert [each for each in told.ended if each.id.uid in uids] == []
    made = [ObjectKey("ScaleRequest", namespace, name) for namespace, name in told.requests]
    assert len(set(made)) == len(made)
    assert [key for key in made if world.store.find(key) is None] == []
    await lab.clock.sleep(60)
    there = {each["metadata"]["uid"]: each["spec"]["reason"] for each in world.store.list("Pause")}
    for each in replicas:
        assert {p.id.uid: p.reason for p in each.cache.all_pauses()} == there
