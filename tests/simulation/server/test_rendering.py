"""Objects as the API shows them."""

import pytest

from app.core.errors import Conflict, Expired, Invalid, NotFound, ServerFault
from app.core.model.workloads import ResourceRef
from app.simulation import manifests
from app.simulation.server import answers, rendering, tables
from app.simulation.server.catalog import SEED_RESOURCES, Catalog
from app.simulation.server.writing import AlreadyExists
from app.simulation.store import ObjectKey, Store
from tests.support.harness import KCM

ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")


def kept(key, body):
    return Store().create(key, manifests.born(body, 0.0))


def deployment(replicas):
    return kept(ObjectKey("Deployment", "ns", "a"), manifests.workload(KCM, replicas))


def test_zeros_of_a_status_are_left_out_and_the_wanted_count_is_not():
    shown = rendering.shown(deployment(0))
    assert shown["spec"]["replicas"] == 0
    assert shown["status"] == {"observedGeneration": 1}


def test_a_scale_of_zero_has_an_empty_spec():
    scale = rendering.scale(deployment(0))
    assert scale["spec"] == {}
    assert scale["status"] == {"replicas": 0, "selector": f"app={KCM.name}"}


def test_a_kind_of_its_own_shows_its_size_as_replicas_and_keeps_its_zeros():
    etcd = kept(ObjectKey("Etcd", "ns", "etcd-main"), manifests.workload(ETCD, 0))
    assert rendering.shown(etcd)["status"] == {"size": 0}
    assert rendering.scale(etcd)["spec"] == {}


def test_an_object_of_the_whole_cluster_shows_no_namespace():
    cluster = kept(ObjectKey("Cluster", "", "a"), manifests.cluster("a", 0.0))
    assert "namespace" not in rendering.shown(cluster)["metadata"]
    assert rendering.shown(cluster)["metadata"]["generation"] == 1


def test_a_secret_has_no_generation():
    secret = kept(ObjectKey("Secret", "ns", "a"), manifests.secret(b"x"))
    assert "generation" not in rendering.shown(secret)["metadata"]


def test_in_a_list_only_kinds_of_their_own_name_themselves():
    assert "kind" not in rendering.item(deployment(1))
    cluster = kept(ObjectKey("Cluster", "", "a"), manifests.cluster("a", 0.0))
    assert rendering.item(cluster)["kind"] == "Cluster"


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (NotFound("gone", status=404), 404, "NotFound"),
        (Conflict("modified", status=409), 409, "Conflict"),
        (AlreadyExists(SEED_RESOURCES[1], "a"), 409, "AlreadyExists"),
        (Expired("too old", status=410), 410, "Expired"),
        (Invalid("wrong", status=422), 422, "Invalid"),
        (ServerFault("not yet", status=504), 504, "Timeout"),
    ],
)
def test_a_failure_is_a_status_with_its_reason(error, code, reason):
    status = answers.status(error, code)
    assert (status["status"], status["code"], status["reason"]) == ("Failure", code, reason)
    assert status["message"] == str(error)


@pytest.mark.parametrize(
    ("accept", "shape"),
    [
        ("application/json", tables.Shape.WHOLE),
        ("", tables.Shape.WHOLE),
        ("*/*", tables.Shape.WHOLE),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", tables.Shape.TABLE),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            tables.Shape.PARTIAL,
        ),
    ],
)
def test_the_accept_header_chooses_the_shape_of_a_list(accept, shape):
    assert tables.shape_of(accept, listed=True) is shape


@pytest.mark.parametrize("accept", ["text/html", "application/json;as=PartialObjectMetadataList"])
def test_a_shape_that_one_object_does_not_have_is_not_acceptable(accept):
    with pytest.raises(Invalid) as caught:
        tables.shape_of(accept)
    assert caught.value.status == 406


@pytest.mark.parametrize(
    ("seconds", "age"), [(5, "5s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")]
)
def test_a_table_shows_how_old_an_object_is(seconds, age):
    resource = next(each for each in SEED_RESOURCES if each.kind == "Deployment")
    row = tables.table(resource, [deployment(2)], float(seconds), 7)["rows"][0]
    assert row["cells"] == ["a", "2/2", 2, 2, age]


def test_a_kind_that_came_into_the_store_by_itself_is_discovered_with_its_scale():
    store = Store()
    catalog = Catalog(SEED_RESOURCES, store)
    assert catalog.resource_list("druid.gardener.cloud", "v1alpha1") is None
    store.create(ObjectKey("Etcd", "ns", "etcd-main"), manifests.workload(ETCD, 1))
    found = catalog.resource_list("druid.gardener.cloud", "v1alpha1")
    assert found is not None
    assert [each["name"] for each in found["resources"]] == ["etcds", "etcds/status", "etcds/scale"]
    assert "druid.gardener.cloud" in [each["name"] for each in catalog.group_list()["groups"]]
