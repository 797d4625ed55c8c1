"""The typed client of the field understands what a server says: objects, lists, watches, refusals."""

import asyncio
import base64
import json
import ssl
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import kubernetes_asyncio.client
import pytest
import pytest_asyncio
from kubernetes_asyncio import watch

from tests.contract.arena import ELECTION, NODE_LEASES, REAL_TIME
from tests.contract.wire import MERGE
from tests.e2e import objects

pytestmark = REAL_TIME

client: Any = kubernetes_asyncio.client  # its types want models where it takes plain data too
MACHINES = ("machine.sapcloud.io", "v1alpha1")


@asynccontextmanager
async def connected(url, ca, token):
    configuration = client.Configuration(host=url)
    configuration.api_key = {"BearerToken": f"Bearer {token}"}
    api = client.ApiClient(configuration)
    await api.rest_client.pool_manager.close()  # it trusts the authorities of the system
    context = ssl.create_default_context(cadata=ca)
    api.rest_client.pool_manager = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context), trust_env=False
    )
    try:
        yield api
    finally:
        await api.close()


@pytest_asyncio.fixture(loop_scope="session")
async def api(arena):
    async with connected(arena.proxy.url, arena.ca, arena.admin_token) as made:
        yield made


async def test_deployments_are_created_read_listed_and_deleted(arena, api):
    apps, namespace = client.AppsV1Api(api), arena.namespace
    made = await apps.create_namespaced_deployment(namespace, objects.deployment("a", 2))
    assert (made.metadata.name, made.spec.replicas) == ("a", 2)
    assert made.metadata.creation_timestamp.tzinfo is not None
    read = await apps.read_namespaced_deployment("a", namespace)
    assert read.metadata.uid == made.metadata.uid
    listed = await apps.list_namespaced_deployment(namespace, limit=1)
    assert [each.metadata.name for each in listed.items] == ["a"]
    assert listed.metadata.resource_version
    assert (await apps.delete_namespaced_deployment("a", namespace)).status == "Success"
    assert (await apps.list_namespaced_deployment(namespace)).items == []


async def test_pages_are_followed_to_the_end(arena, api):
    apps, namespace = client.AppsV1Api(api), arena.namespace
    for name in "abc":
        await apps.create_namespaced_deployment(namespace, objects.deployment(name, 1))
    found, token = [], None
    while token != "":
        more: dict[str, str] = {} if token is None else {"_continue": token}
        page = await apps.list_namespaced_deployment(namespace, limit=2, **more)
        found += [each.metadata.name for each in page.items]
        token = page.metadata._continue or ""
    assert found == ["a", "b", "c"]


async def test_a_deployment_is_scaled_to_zero_and_back(arena, api):
    apps, place = client.AppsV1Api(api), ("a", arena.namespace)
    await apps.create_namespaced_deployment(arena.namespace, objects.deployment("a", 2))
    for wanted in (0, 3):
        body = {"spec": {"replicas": wanted}}
        scale = await apps.patch_namespaced_deployment_scale(*place, body, _content_type=MERGE)
        assert (scale.kind, scale.spec.replicas or 0) == ("Scale", wanted)
        read = await apps.read_namespaced_deployment_scale(*place)
        assert (read.spec.replicas or 0, read.status.replicas) == (wanted, 0)
    assert (await apps.read_namespaced_deployment(*place)).spec.replicas == 3


async def test_a_deployment_is_annotated_by_its_default_patch(arena, api):
    apps = client.AppsV1Api(api)
    await apps.create_namespaced_deployment(arena.namespace, objects.deployment("a", 2))
    body = {"metadata": {"annotations": {"x": "1"}}}
    made = await apps.patch_namespaced_deployment("a", arena.namespace, body)
    assert made.metadata.annotations == {"x": "1"}


async def test_a_lease_is_created_and_replaced_on_its_version_only(arena, api):
    leases, namespace = client.CoordinationV1Api(api), arena.namespace
    spec = client.V1LeaseSpec(holder_identity="x", lease_duration_seconds=15)
    lease = client.V1Lease(metadata=client.V1ObjectMeta(name=ELECTION), spec=spec)
    first = await leases.create_namespaced_lease(namespace, lease)
    first.spec.holder_identity = "y"
    second = await leases.replace_namespaced_lease(ELECTION, namespace, first)
    assert second.spec.holder_identity == "y"
    assert second.metadata.resource_version != first.metadata.resource_version
    with pytest.raises(client.ApiException) as caught:
        await leases.replace_namespaced_lease(ELECTION, namespace, first)
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")


async def test_custom_objects_are_plain_data(arena, api):
    custom, namespace = client.CustomObjectsApi(api), arena.namespace
    body = objects.machine("a") | {"apiVersion": "/".join(MACHINES), "kind": "Machine"}
    await custom.create_namespaced_custom_object(*MACHINES, namespace, "machines", body)
    place = (*MACHINES, namespace, "machines", "machine-a")
    phase = {"status": {"currentStatus": {"phase": "Running"}}}
    await custom.patch_namespaced_custom_object_status(*place, phase, _content_type=MERGE)
    found = await custom.get_namespaced_custom_object(*place)
    assert found["status"] == phase["status"]
    listed = await custom.list_namespaced_custom_object(*MACHINES, namespace, "machines")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["machine-a"]


async def test_what_is_not_there_is_a_404_with_its_status(arena, api):
    with pytest.raises(client.ApiException) as caught:
        await client.AppsV1Api(api).read_namespaced_deployment("nope", arena.namespace)
    assert caught.value.status == 404
    assert '"reason":"NotFound"' in caught.value.body


async def test_a_watch_tells_what_happens(arena, api):
    apps, namespace = client.AppsV1Api(api), arena.namespace
    version = (await apps.list_namespaced_deployment(namespace)).metadata.resource_version
    await apps.create_namespaced_deployment(namespace, objects.deployment("a", 1))
    await apps.patch_namespaced_deployment("a", namespace, {"spec": {"replicas": 2}})
    await apps.delete_namespaced_deployment("a", namespace)
    found = []
    async with asyncio.timeout(8), watch.Watch() as stream:
        async for event in stream.stream(
            apps.list_namespaced_deployment,
            namespace,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=5,
        ):
            found.append((event["type"], event["object"].spec.replicas))
            if len(found) == 3:
                break
    assert found == [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)]


async def watched_to_its_end(ask, namespace, version):
    async with asyncio.timeout(8), watch.Watch() as stream:
        events = stream.stream(ask, namespace, resource_version=version, timeout_seconds=5)
        return [event async for event in events]


async def test_a_watch_from_a_forgotten_version_is_a_410(arena, api):
    core, namespace = client.CoreV1Api(api), arena.namespace
    version = (await core.list_namespaced_secret(namespace)).metadata.resource_version
    for name in "ab":
        await core.create_namespaced_secret(namespace, {"metadata": {"name": name}})
    await arena.forget()
    with pytest.raises(client.ApiException) as caught:
        await watched_to_its_end(core.list_namespaced_secret, namespace, version)
    assert caught.value.status == 410


async def test_the_version_is_read(api):
    assert (await client.VersionApi(api).get_code()).git_version.startswith("v1.")


async def test_what_one_may_is_reviewed(api):
    attributes = client.V1ResourceAttributes(verb="patch", resource="deployments", group="apps")
    spec = client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    review = client.V1SelfSubjectAccessReview(spec=spec)
    made = await client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert made.status.allowed is True


async def test_a_shoot_shows_its_nodes_and_leases(arena):
    shoot = await arena.shoot()
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    await shoot.admin.create("Node", objects.node("a") | {"status": status})
    await shoot.admin.create("Lease", {"metadata": {"name": "a"}, "spec": {"holderIdentity": "a"}})
    config = json.loads(shoot.secret().kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    async with connected(cluster["server"], ca, user["token"]) as api:
        (node,) = (await client.CoreV1Api(api).list_node()).items
        assert (node.metadata.name, node.status.conditions[0].type) == ("a", "Ready")
        leases = client.CoordinationV1Api(api)
        (lease,) = (await leases.list_namespaced_lease(NODE_LEASES)).items
        assert lease.spec.holder_identity == "a"
