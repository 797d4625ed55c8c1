"""Every decision of the prober, as pure functions of frozen values; each answer carries its reason.

- `lifecycle`: whether a shoot is probed at all, and with which facts
- `leases`: how old a lease is, and whether it is fresh, expired or unknown
- `candidates`: which nodes count, how many of their leases are expired, and whether Nodes must be read
- `verdict`: from a reading to SCALE UP, SCALE DOWN or HOLD, and how often in a row a result must be seen
- `paths`: endpoint mode: which attempts count, and whether the internal path is healthy
- `schedule`: when the next probe is due, and what share of the event loop a shoot may take
- `scaling`: what to do with one resource, in which order, what a scaling run would write, and whether protection is
  active
- `manual`: what people may scale
- `state`: the one word that sums a shoot up
- `probe_worker`, `gates`: endpoint probes, and what holds back a scale-down because of them
"""
