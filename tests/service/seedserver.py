"""The API server of a seed without shoots, over TLS: lists, watches that stay silent, reviews, and a Lease."""

import base64
import json
from typing import Any

from tests.core.kube.server import AUTHORITY, Asked

LEASE = "/apis/coordination.k8s.io/v1/namespaces/garden/leases"
NAME = "dwd-prober-leader-election"
KINDS = {
    "clusters": "Cluster",
    "machines": "Machine",
    "secrets": "Secret",
    "deployments": "Deployment",
}


class Seed:
    """Answers, and keeps what was written."""

    def __init__(self, *, denied=()):
        self.denied = set(denied)
        self.lease: dict[str, Any] | None = None
        self.version = 1
        self.writes = []
        self.reviewed = []

    @property
    def holder(self):
        return None if self.lease is None else self.lease["spec"]["holderIdentity"]

    def taken_by(self, holder):
        """Another instance takes the Lease, without asking."""
        assert self.lease is not None
        self._keep(self.lease | {"spec": self.lease["spec"] | {"holderIdentity": holder}})

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
            found = self.lease is not None
            return await asked.answer(self.lease if found else {}, 200 if found else 404)
        self.writes.append(f"{asked.method} lease")
        body = json.loads(asked.body)
        if asked.method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            return await asked.answer({"message": "newer"}, 409)
        self._keep(body)
        return await asked.answer(self.lease, 201 if asked.method == "POST" else 200)

    def _keep(self, lease):
        self.version += 1
        version = {"name": NAME, "resourceVersion": str(self.version)}
        self.lease = lease | {"metadata": lease["metadata"] | version}


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
