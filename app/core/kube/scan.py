"""Finds what carries the meltdown key and is not configured: one metadata list for each kind."""

from typing import Final

from app.core.errors import NotFound
from app.core.kube.client import Request
from app.core.kube.failures import Asked
from app.core.kube.resources import ApiResource, Resources
from app.core.kube.seed_api import WITHIN, SeedApi
from app.core.kube.decoding.metadata import METADATA_LIST, with_meltdown_key
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef

_PAGE: Final = 500


class UnconfiguredScan:
    """Looks over the kinds of the configured dependents."""

    def __init__(self, api: SeedApi, resources: Resources, policy: ProberPolicy) -> None:
        self._api, self._resources, self._policy = api, resources, policy

    async def __call__(self) -> tuple[str, ...]:
        """Each as `namespace/Kind/name`.

        Raises:
            Forbidden: a kind may not be listed.
            ClusterError: the seed did not answer.
        """
        kinds = {
            (each.ref.api_version, each.ref.kind): each.ref for each in self._policy.dependents
        }
        found: list[str] = []
        for ref in kinds.values():
            found += await self._of_kind(ref)
        return tuple(sorted(found))

    async def _of_kind(self, ref: ResourceRef) -> list[str]:
        try:
            resource = await self._resources.find(ref)
        except NotFound:  # the seed does not serve it
            return []
        configured = {
            each.ref.name
            for each in self._policy.dependents
            if (each.ref.api_version, each.ref.kind) == (ref.api_version, ref.kind)
        }
        return [
            f"{namespace}/{ref.kind}/{name}"
            for namespace, name in await self._protected(resource)
            if name not in configured
        ]

    async def _protected(self, resource: ApiResource) -> list[tuple[str, str]]:
        asked = Asked("list", resource.plural)
        found: list[tuple[str, str]] = []
        params = {"limit": str(_PAGE)}
        while True:
            request = Request(asked, resource.path(), WITHIN, params, accept=METADATA_LIST)
            page = await self._api.call(request, with_meltdown_key)
            found += page.items
            if not page.continues:
                return found
            params = {"limit": str(_PAGE), "continue": page.continues}
