"""Instants as the API has them."""

from app.core.model.instants import rfc3339


def time(instant: float | None) -> str | None:
    """RFC 3339, where there is an instant."""
    return None if instant is None else rfc3339(instant)
