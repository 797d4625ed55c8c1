"""Kubeconfigs as plain data."""

from typing import Any


def kubeconfig_of(
    name: str, cluster: dict[str, Any], user: dict[str, Any], /, **context: Any
) -> dict[str, Any]:
    """One cluster, one user and one context, all of this name, as gardenlet writes them."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
        "users": [{"name": name, "user": user}],
    }
