"""Every decision of the prober, as functions of frozen facts; each answer carries its reason.

- `lifecycle`: is this shoot probed at all
- `candidates`: which nodes count
- `leases`: how old a lease is, and what it counts as
- `tally`: a reading, counted; and whether Nodes must be read
- `verdict`: SCALE UP, SCALE DOWN or HOLD
- `thresholds`: how often in a row, and for how long
- `schedule`: when to probe again
- `planning`: which resources in which order
- `scaling`: what to do with one resource
- `protection`: whether it is active, since when, and what a scaling run would write
- `state`: the word that sums a shoot up
"""
