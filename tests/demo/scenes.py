"""Reports for tests."""

from app.api.schemas import Shoot
from app.cli import answers


def leases(fresh, expired=0, unknown=0, **more):
    """What the last probe read, of now."""
    total = fresh + expired + unknown
    return {"candidates": total, "expired": expired, "unknown": unknown, **more}


def said(state, reason="Because", message="Some words.", *, read=None, would_be=None):
    """What the program says of a shoot; `read`: its leases."""
    shown = {"namespace": "of no interest", "state": state, "reason": reason, "message": message}
    return answers.of(Shoot, {**shown, "probe": {"wouldBe": would_be}, "leases": read})
