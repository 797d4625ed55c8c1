"""Reports for tests."""

from app.simulation.demo.program_api import DemoLeases, DemoProbe, ShootReport


def leases(fresh, expired=0, unknown=0):
    """What the last probe read, of now."""
    return DemoLeases(fresh + expired + unknown, expired, unknown)


def said(state, reason="Because", message="Some words.", *, read=None, would_be=None):
    """What the program says of a shoot; `read`: its leases."""
    return ShootReport("of no interest", state, reason, message, DemoProbe(None, would_be), read)
