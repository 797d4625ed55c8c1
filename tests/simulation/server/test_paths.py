"""What a path names."""

import pytest

from app.simulation.server.options import RequestedObject, parse

APPS = ("apps", "v1", "deployments")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/nodes", RequestedObject("", "v1", "nodes")),
        ("/api/v1/nodes/a", RequestedObject("", "v1", "nodes", "", "a")),
        ("/api/v1/nodes/a/status", RequestedObject("", "v1", "nodes", "", "a", "status")),
        ("/apis/apps/v1/deployments", RequestedObject(*APPS)),
        ("/apis/apps/v1/namespaces/ns/deployments", RequestedObject(*APPS, "ns")),
        ("/apis/apps/v1/namespaces/ns/deployments/a", RequestedObject(*APPS, "ns", "a")),
        (
            "/apis/apps/v1/namespaces/ns/deployments/a/scale",
            RequestedObject(*APPS, "ns", "a", "scale"),
        ),
        ("/api/v1/namespaces", RequestedObject("", "v1", "namespaces")),
        ("/api/v1/namespaces/ns", RequestedObject("", "v1", "namespaces", "", "ns")),
        (
            "/api/v1/namespaces/ns/status",
            RequestedObject("", "v1", "namespaces", "", "ns", "status"),
        ),
        ("/api/v1/namespaces/ns/secrets", RequestedObject("", "v1", "secrets", "ns")),
        ("/api/v1/nodes/", RequestedObject("", "v1", "nodes")),
    ],
)
def test_a_path_names_what_a_real_server_takes_it_for(path, target):
    assert parse(path) == target


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/v1",
        "/apis/apps/v1",
        "/metrics",
        "/api/v1//nodes",
        "/api/v1/nodes/a/status/more",
        "/apis/apps/v1/namespaces/ns/deployments/a/scale/more",
    ],
)
def test_what_is_no_path_of_an_object_is_none(path):
    assert parse(path) is None
