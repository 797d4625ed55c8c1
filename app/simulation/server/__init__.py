"""Serves a simulated world as clients of Kubernetes meet it: each API server over HTTPS or in memory.

From the outside in:

servers                all API servers of a world
loopback, certificates their ports and certificate authorities
front                  one API server: authenticates, dispatches and answers
reading, streams       objects, lists and selectors; watches
writing                create, replace, patch and delete, and the validation of what clients send
answers, rendering     HTTP answers and Status objects; objects as JSON, and as the tables that kubectl prints
options                paths, and parameters of lists, watches and writes
catalog                discovery
"""

from app.simulation.server.loopback import Loopback
from app.simulation.server.servers import MemoryServers, SimulatedServers

__all__ = ["Loopback", "MemoryServers", "SimulatedServers"]
