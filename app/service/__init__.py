"""One process of the watchdog on any cluster, real or simulated: its parts, its start and stop, its view of itself."""
