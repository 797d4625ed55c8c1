"""The simulated seed over HTTPS: each API server of a world on a port of loopback, as far as clients call it.

From the outside in: `servers` (all API servers of a world), `loopback` (their ports and authorities), `front` (one API
server: who asks, for what, and what comes back), `reading`, `streams`, `writing` and `executing` (what is done), and,
pure, `catalog`, `paths`, `selectors`, `deleting`, `rendering`, `tables` and `podcells`.
"""

from app.simulation.server.loopback import Loopback
from app.simulation.server.servers import SimulatedServers

__all__ = ["Loopback", "SimulatedServers"]
