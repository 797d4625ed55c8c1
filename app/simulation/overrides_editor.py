"""Edits the ConfigMap of the overrides as a person with kubectl would."""

from collections.abc import Mapping
from typing import Final

from app.core.model.overrides import OVERRIDES
from app.core.model.workloads import ResourceRef
from app.simulation import manifests
from app.simulation.parts import WorldParts
from app.simulation.store import ObjectKey
from app.simulation.traffic import Write

GARDEN: Final = "garden"
"""The watchdog's own namespace."""
CONFIG_MAP: Final = ObjectKey("ConfigMap", GARDEN, OVERRIDES)
_REF: Final = ResourceRef("v1", "ConfigMap", OVERRIDES)


class OverridesEditor:
    """Edits the ConfigMap like a person with kubectl, immediately and unaffected by faults."""

    def __init__(self, parts: WorldParts, author: str) -> None:
        self._parts, self._author = parts, author

    def data(self) -> Mapping[str, str]:
        """The contents of the ConfigMap in the store; empty if there is none."""
        found = self._parts.store.find(CONFIG_MAP)
        return {} if found is None else dict(found.get("data") or {})

    def edit(self, changes: Mapping[str, str | None]) -> None:
        """Writes the given keys, and removes those that are None; creates the ConfigMap if necessary.

        Raises:
            Invalid: it would be too large, or has a key that cannot be one.
        """
        store, now = self._parts.store, self._parts.clock.now()
        if store.find(CONFIG_MAP) is not None:
            self._parts.write(CONFIG_MAP, {"data": dict(changes)}, self._author)
            return
        body = manifests.config_map(
            {key: text for key, text in changes.items() if text is not None}
        )
        store.create(CONFIG_MAP, manifests.born(body, now))
        self._parts.journal.add(Write(now, GARDEN, _REF, body, self._author, now, "create"))

    def delete(self) -> None:
        """Deletes the ConfigMap.

        Raises:
            NotFound: there is none.
        """
        now = self._parts.clock.now()
        self._parts.store.delete(CONFIG_MAP)
        self._parts.journal.add(Write(now, GARDEN, _REF, {}, self._author, now, "delete"))
