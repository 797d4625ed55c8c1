"""People who pause and scale by hand, and definitions that come and go."""

import pytest

from app.core.errors import Forbidden
from app.core.model.callers import GROUP
from app.simulation.identities import OPERATOR
from app.simulation.server.catalog import Catalog
from app.simulation.server.options import RequestedObject
from app.simulation.server.writing import StoreWriter, WriteRequest
from app.simulation.store import ObjectKey
from tests.simulation.worlds import simulated

A = "shoot--local--a"
PAUSE = ObjectKey("Pause", A, "x")
PAUSES = RequestedObject(GROUP, "v1alpha1", "pauses", A)
BODY = {
    "apiVersion": f"{GROUP}/v1alpha1",
    "kind": "Pause",
    "metadata": {"name": "x"},
    "spec": {"reason": "work"},
}


def written(world):
    return [(each.by, each.verb, each.ref.kind, each.namespace) for each in world.journal.writes]


@simulated()
async def test_people_create_change_and_delete_and_the_journal_names_them(world):
    people = world.people
    made = people.create("Pause", A, "x", reason="work", by="jane")
    assert made["spec"] == {"reason": "work", "scope": "all"}
    assert made["metadata"]["creationTimestamp"]
    people.edit("Pause", A, "x", scope="scaleDown", reason="more work", by="joe")
    found = world.store.get(PAUSE)
    assert found["spec"] == {"reason": "more work", "scope": "scaleDown"}
    assert found["metadata"]["generation"] == 2
    people.delete("Pause", A, "x")
    assert world.store.find(PAUSE) is None
    assert written(world) == [
        ("jane", "create", "Pause", A),
        ("joe", "patch", "Pause", A),
        (OPERATOR, "delete", "Pause", A),
    ]


def of_pauses(world):
    found = Catalog((), world.store).find(GROUP, "v1alpha1", "pauses")
    assert found is not None
    return found


@simulated()
async def test_a_write_on_its_way_meets_a_kind_that_ends(world):
    resource = of_pauses(world)
    writer = StoreWriter(
        world.store,
        world.journal.enter,
        lambda key, _, options: world.store.request_deletion(key, 0.0, options),
    )
    asked = WriteRequest("create", resource, PAUSES, BODY, "jane", world.clock.now())
    fault = world.faults.crds_removed()
    with pytest.raises(Forbidden, match="not allowed while custom resource definition is term"):
        writer.write(asked)
    fault.lift()
    assert writer.write(asked)[0] == 201
    assert written(world) == [("jane", "create", "Pause", A)]


@simulated()
async def test_objects_go_with_their_namespace(world):
    world.add_shoot(A, nodes=1)
    world.people.create("Pause", A, "x", reason="work")
    world.people.create("Pause", "garden", "x", reason="work")
    world.remove_shoot(A)
    assert [each["metadata"]["namespace"] for each in world.store.list("Pause")] == ["garden"]
    world.store.create(ObjectKey("Namespace", "", "garden"), {"apiVersion": "v1"})
    world.seed_pods.delete(ObjectKey("Namespace", "", "garden"), OPERATOR)
    assert world.store.list("Pause") == ()
