"""A long life: seven days on virtual time, and hours of the real program; what may not grow does not.

- `weather`: faults, people, and shoots that come and go
- `program`, `days`: the whole service on virtual time, hour by hour
- `real`: a process of `dwd serve`, minute by minute
- `measures`: what is counted, and what counts as grown
"""
