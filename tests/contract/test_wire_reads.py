"""What a server says to reads, word by word: objects, lists and their pages, shapes, refusals."""

import asyncio

import pytest

from tests.contract.arena import KINDS, REAL_TIME
from tests.contract.wire import Wire, failure
from tests.e2e import objects

pytestmark = REAL_TIME

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def at(arena, kind, name=""):
    return KINDS[kind].path(arena.namespace, name)


def lease(name, **spec):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "x", **spec}}


async def several(arena, wire, many=5):
    for n in range(many):
        answer = await wire.ask("POST", at(arena, "Lease"), lease(f"l{n}"))
        assert answer.status == 201, answer.text


async def test_an_object_names_its_kind_and_leaves_zeroes_out(arena, wire):
    await wire.ask("POST", at(arena, "Deployment"), objects.deployment("a", 0))
    answer = await wire.get(at(arena, "Deployment", "a"))
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-cache, private"
    assert "GMT" in answer.headers["Date"]
    found = answer.json
    assert (found["kind"], found["apiVersion"]) == ("Deployment", "apps/v1")
    assert found["spec"]["replicas"] == 0
    assert found["status"] == {}
    metadata = found["metadata"]
    assert metadata.keys() - {"managedFields"} == {
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
    }
    assert metadata["resourceVersion"].isdigit()
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")


async def test_a_lease_has_no_generation(arena, wire):
    await several(arena, wire, 1)
    found = (await wire.get(at(arena, "Lease", "l0"))).json
    assert "generation" not in found["metadata"]
    assert found["spec"] == {"holderIdentity": "x"}


async def test_the_scale_of_zero_has_an_empty_spec(arena, wire):
    await wire.ask("POST", at(arena, "Deployment"), objects.deployment("a", 0))
    await wire.ask("POST", at(arena, "Scaler"), objects.scaler("a", 0))
    for kind, selector in (("Deployment", {"selector": "app=a"}), ("Scaler", {})):
        scale = (await wire.get(at(arena, kind, "a/scale"))).json
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["spec"] == {}
        assert scale["status"] == {"replicas": 0, **selector}
        assert scale["metadata"].keys() == {
            *("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        }


BODIES = {
    "Deployment": objects.deployment("a", 1),
    "Lease": lease("a"),
    "Secret": {"metadata": {"name": "a"}},
    "Machine": objects.machine("a"),
    "Scaler": objects.scaler("a", 1),
}
CUSTOM = {"Machine", "Scaler"}


@pytest.mark.parametrize("kind", BODIES)
async def test_items_of_custom_kinds_name_their_kind_and_those_of_built_in_ones_do_not(
    arena, wire, kind
):
    await wire.ask("POST", at(arena, kind), BODIES[kind])
    found = (await wire.get(at(arena, kind))).json
    assert (found["kind"], found["apiVersion"]) == (f"{kind}List", KINDS[kind].api_version)
    (item,) = found["items"]
    if kind in CUSTOM:
        assert found["metadata"]["continue"] == ""
        assert (item["kind"], item["apiVersion"]) == (kind, KINDS[kind].api_version)
        assert item["metadata"]["generation"] == 1
    else:
        assert found["metadata"].keys() == {"resourceVersion"}
        assert item.keys().isdisjoint({"kind", "apiVersion"})


async def test_an_empty_list_has_items_and_a_version(arena, wire):
    found = (await wire.get(at(arena, "Lease"))).json
    assert found["items"] == []
    assert found["metadata"]["resourceVersion"].isdigit()


async def test_the_pages_of_a_list_show_one_instant(arena, wire):
    await several(arena, wire)
    first = (await wire.get(at(arena, "Lease") + "?limit=2")).json
    await wire.ask("POST", at(arena, "Lease"), lease("l99"))
    await wire.ask("DELETE", at(arena, "Lease", "l3"))
    names, page = [item["metadata"]["name"] for item in first["items"]], first
    while page["metadata"].get("continue"):
        path = f"{at(arena, 'Lease')}?limit=2&continue={page['metadata']['continue']}"
        page = (await wire.get(path)).json
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names == [f"l{n}" for n in range(5)]
    assert page["metadata"].keys() == {"resourceVersion"}


async def test_a_page_whose_list_is_forgotten_has_expired(arena, wire):
    for n in range(3):
        await wire.ask("POST", at(arena, "Secret"), {"metadata": {"name": f"s{n}"}})
    page = (await wire.get(at(arena, "Secret") + "?limit=1")).json
    await wire.ask("POST", at(arena, "Secret"), {"metadata": {"name": "later"}})
    await arena.forget()
    token = page["metadata"]["continue"]
    answer = await wire.get(f"{at(arena, 'Secret')}?limit=1&continue={token}")
    assert failure(answer) == (410, "Expired")


async def test_a_limit_below_zero_is_none(arena, wire):
    await several(arena, wire)
    assert len((await wire.get(at(arena, "Lease") + "?limit=-1")).json["items"]) == 5


async def test_fields_choose_and_labels_with_them(arena, wire):
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {})):
        body = lease(name)
        body["metadata"]["labels"] = labels
        await wire.ask("POST", at(arena, "Lease"), body)
    for query, chosen in {
        "fieldSelector=metadata.name%3Db": "b",
        "fieldSelector=metadata.name!%3Db": "ac",
        "fieldSelector=metadata.name%3Da&labelSelector=x%3D2": "",
    }.items():
        found = (await wire.get(f"{at(arena, 'Lease')}?{query}")).json
        assert "".join(each["metadata"]["name"] for each in found["items"]) == chosen, query


async def test_a_query_that_cannot_be_read_is_a_bad_request(arena, wire):
    no_machine_word = "9" * 5000
    for query in (
        "labelSelector=%3D%3D!",
        "labelSelector=x%20in",
        "fieldSelector=foo",
        "fieldSelector=spec.foo%3Dx",
        "resourceVersion=abc",
        "limit=x",
        "limit=1&continue=abc",
        f"limit={no_machine_word}",
        f"resourceVersion={no_machine_word}",
        f"continue={no_machine_word}",
        f"timeoutSeconds={no_machine_word}",
    ):
        answer = await wire.get(f"{at(arena, 'Lease')}?{query}")
        assert failure(answer) == (400, "BadRequest"), query[:40]


async def test_any_version_is_good_for_a_read_from_the_cache(arena, wire):
    await several(arena, wire, 1)
    path = at(arena, "Lease")
    version = (await wire.get(path)).json["metadata"]["resourceVersion"]
    assert len((await wire.get(f"{path}?resourceVersion={version}")).json["items"]) == 1
    async with asyncio.timeout(5):  # the cache may be a moment late
        while not (await wire.get(f"{path}?resourceVersion=0")).json["items"]:
            pass


@pytest.mark.parametrize(
    ("kind", "group"), [("Deployment", "apps"), ("Machine", "machine.sapcloud.io"), ("Secret", "")]
)
async def test_what_is_not_there_is_named(arena, wire, kind, group):
    answer = await wire.get(at(arena, kind, "nope"))
    assert failure(answer) == (404, "NotFound")
    plural = KINDS[kind].plural
    details = {"name": "nope", "kind": plural} | ({"group": group} if group else {})
    assert answer.json["details"] == details
    resource = f"{plural}.{group}" if group else plural
    assert answer.json["message"] == f'{resource} "nope" not found'


async def test_what_no_built_in_group_would_have_is_no_page(arena, wire):
    for path in (
        "/nonsense",
        "/apis/nowhere.org/v1",
        "/apis/nowhere.org/v1/namespaces/x/things/y",
        "/apis/example.org/v9",
        "/apis/example.org/v1/namespaces/x/things",
    ):
        answer = await wire.get(path)
        assert answer.status == 404
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.text == "404 page not found\n"


async def test_what_a_built_in_group_does_not_have_could_not_be_found(arena, wire):
    for path in (
        "/apis/apps/v9",
        "/api/v2",
        "/apis/apps/v9/namespaces/x/deployments/y",
        "/apis/apps/v1/namespaces/x/things/y",
        "/apis/apps/v1/namespaces/x/deployments/y/nope",
        "/apis/coordination.k8s.io/v1/namespaces/x/leases/y/scale",
        "/api/v1/nonsense",
    ):
        answer = await wire.get(path)
        assert failure(answer) == (404, "NotFound"), path
        assert answer.json["message"] == "the server could not find the requested resource"
        assert answer.json["details"] == {}


async def test_metadata_alone_is_sent_where_it_is_asked_for(arena, wire):
    await several(arena, wire, 1)
    listed = (await wire.get(at(arena, "Lease"), accept=METADATA_LIST)).json
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (found,) = listed["items"]
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert found.keys() == {"kind", "apiVersion", "metadata"}
    assert found["metadata"]["name"] == "l0"


async def test_tables_are_sent_where_they_are_asked_for(arena, wire):
    for name in "ab":
        await wire.ask("POST", at(arena, "Deployment"), objects.deployment(name, 2))
    for accept in (TABLE, f"{TABLE},application/json"):
        table = (await wire.get(at(arena, "Deployment"), accept=accept)).json
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert table["metadata"]["resourceVersion"].isdigit()
        names = [each["name"] for each in table["columnDefinitions"] if each["priority"] == 0]
        assert names == ["Name", "Ready", "Up-to-date", "Available", "Age"]
        cells = [["a", "0/2", 0, 0], ["b", "0/2", 0, 0]]
        assert [row["cells"][:4] for row in table["rows"]] == cells
        assert {row["object"]["kind"] for row in table["rows"]} == {"PartialObjectMetadata"}
    one = (await wire.get(at(arena, "Deployment", "a"), accept=TABLE)).json
    version = (await wire.get(at(arena, "Deployment", "a"))).json["metadata"]["resourceVersion"]
    assert one["metadata"] == {"resourceVersion": version}


async def test_a_token_that_is_not_known_opens_nothing(arena, wire):
    stranger = Wire(arena.port, arena.ca, "nonsense")
    for path in ("/version", "/api", at(arena, "Deployment"), "/nonsense"):
        answer = await stranger.get(path)
        assert failure(answer) == (401, "Unauthorized")
        assert answer.json["message"] == "Unauthorized"
    await stranger.close()


async def test_the_version_has_what_clients_read(arena, wire):
    for path in ("/version", "/version/"):
        found = (await wire.get(path)).json
        assert found["gitVersion"].startswith(f"v{found['major']}.{found['minor']}.")


OF_THE_CORE = {"ConfigMap", "Node", "Pod", "Secret"}


async def test_discovery_names_groups_resources_and_what_can_be_done_with_them(arena, wire):
    assert (await wire.get("/api")).json["versions"] == ["v1"]
    groups = {each["name"]: each for each in (await wire.get("/apis")).json["groups"]}
    for kind in KINDS.keys() - OF_THE_CORE:
        group, version = KINDS[kind].api_version.split("/")
        served = {"groupVersion": KINDS[kind].api_version, "version": version}
        assert groups[group]["preferredVersion"] == served
        assert (await wire.get(f"/apis/{group}")).json["name"] == group
        listed = (await wire.get(f"/apis/{group}/{version}")).json
        assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{group}/{version}")
        resources = {each["name"]: each for each in listed["resources"]}
        found = resources[KINDS[kind].plural]
        assert (found["kind"], found["namespaced"]) == (kind, KINDS[kind].namespaced)
        assert found["singularName"] == kind.lower()
        verbs = {"create", "delete", "get", "list", "patch", "watch"}
        assert set(found["verbs"]) >= verbs
        if kind in {"Pause", "ScaleRequest"}:
            short = "dwdp" if kind == "Pause" else "dwdsr"
            assert (found["shortNames"], found["categories"]) == ([short], ["dwd"])
            assert {"get", "patch"} <= set(resources[f"{KINDS[kind].plural}/status"]["verbs"])
        if kind in {"Deployment", "Scaler"}:
            scale = resources[f"{KINDS[kind].plural}/scale"]
            named = (scale["kind"], scale["group"], scale["version"])
            assert named == ("Scale", "autoscaling", "v1")
            assert {"get", "patch"} <= set(scale["verbs"])
            assert resources[f"{KINDS[kind].plural}/status"]["kind"] == kind


async def test_the_core_group_is_discovered_too(arena, wire):
    listed = (await wire.get("/api/v1")).json
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    kinds = {each["name"]: each["kind"] for each in listed["resources"]}
    assert (kinds["secrets"], kinds["namespaces"]) == ("Secret", "Namespace")
    assert (kinds["pods"], kinds["pods/status"]) == ("Pod", "Pod")
    assert [each["shortNames"] for each in listed["resources"] if each["name"] == "pods"] == [
        ["po"]
    ]


async def test_a_pause_is_asked_for_in_plain_text(arena):
    user = Wire(arena.port, arena.ca, arena.token)
    async with arena.throttled():
        for path in ("/version", at(arena, "Deployment"), at(arena, "Deployment", "a")):
            answer = await user.get(path)
            # kube-apiserver asks for more seconds the more requests it has just turned away
            assert (answer.status, 0 < int(answer.headers["Retry-After"]) < 10) == (429, True)
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert answer.text == "Too many requests, please try again later.\n"
    assert (await user.get("/version")).status == 200
    await user.close()
