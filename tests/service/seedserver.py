"""The API server of a seed without shoots, over TLS: lists, watches that stay silent, reviews, and Leases."""

import base64
import json
from typing import Any

from tests.core.kube.server import AUTHORITY, Asked

LEASE = "/apis/coordination.k8s.io/v1/namespaces/garden/leases"
PROBER_LEASE = "dwd-prober-leader-election"
WEEDER_LEASE = "dwd-weeder-leader-election"
KINDS = {
    "clusters": "Cluster",
    "machines": "Machine",
    "secrets": "Secret",
    "deployments": "Deployment",
    "endpointslices": "EndpointSlice",
    "pods": "Pod",
    "pauses": "Pause",
    "scalerequests": "ScaleRequest",
}


class Seed:
    """Answers, and keeps what was written."""

    def __init__(self, *, denied=()):
        self.denied = set(denied)
        self.leases: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.writes = []
        self.reviewed = []

    @property
    def lease(self):
        """The prober's."""
        return self.leases.get(PROBER_LEASE)

    @property
    def holders(self):
        """Who holds each Lease."""
        return {name: each["spec"]["holderIdentity"] for name, each in self.leases.items()}

    @property
    def holder(self):
        return self.holders.get(PROBER_LEASE)

    def taken_by(self, holder):
        """Another instance takes the prober's Lease, without asking."""
        fresh = {"metadata": {"name": PROBER_LEASE}, "spec": {"leaseDurationSeconds": 1}}
        lease = self.leases.get(PROBER_LEASE, fresh)
        self._keep(lease | {"spec": lease["spec"] | {"holderIdentity": holder}})

    async def __call__(self, asked: Asked) -> None:
        if asked.path.endswith("/selfsubjectaccessreviews"):
            await self._review(asked)
        elif asked.path.startswith(LEASE):
            await self._lease(asked)
        elif asked.method != "GET":
            self.writes.append(f"{asked.method} {asked.path}")
            await asked.answer({"message": "not here"}, 404)
        elif "watch" in asked.query:
            await asked.begin_stream()
            await asked.hang()
        else:
            await self._list(asked)

    async def _list(self, asked):
        kind = KINDS.get(asked.path.rsplit("/", 1)[1])
        if kind is None:
            return await asked.answer({"message": "not served"}, 404)
        if "PartialObjectMetadataList" in asked.headers.get("accept", ""):
            kind = "PartialObjectMetadata"
        body = {"kind": f"{kind}List", "metadata": {"resourceVersion": "9"}, "items": []}
        return await asked.answer(body)

    async def _review(self, asked):
        attributes = json.loads(asked.body)["spec"]["resourceAttributes"]
        right = (attributes["verb"], attributes["resource"])
        self.reviewed.append(right)
        status = {"allowed": right not in self.denied}
        await asked.answer({"kind": "SelfSubjectAccessReview", "status": status}, 201)

    async def _lease(self, asked):
        if asked.method == "GET":
            name = asked.path.rsplit("/", 1)[1]
            found = self.leases.get(name)
            return await asked.answer(found or {}, 404 if found is None else 200)
        body = json.loads(asked.body)
        metadata = body["metadata"]
        self.writes.append(f"{asked.method} lease {metadata['name']}")
        known = self.leases.get(metadata["name"])
        if asked.method == "PUT" and metadata["resourceVersion"] != _version(known):
            return await asked.answer({"message": "newer"}, 409)
        self._keep(body)
        return await asked.answer(
            self.leases[metadata["name"]], 201 if asked.method == "POST" else 200
        )

    def _keep(self, lease):
        self.version += 1
        metadata = lease["metadata"] | {"resourceVersion": str(self.version)}
        self.leases[metadata["name"]] = lease | {"metadata": metadata}


def _version(lease):
    return None if lease is None else lease["metadata"]["resourceVersion"]


def kubeconfig(path, origin):
    """A kubeconfig for this server."""
    ca = base64.b64encode(AUTHORITY.pem).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": origin, "certificate-authority-data": ca}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(json.dumps(config))
    return path
