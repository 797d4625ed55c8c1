"""The bench of the running program: `make bench`, or `python -m bench.perf --only steady-300x10 --against COMMIT`.

The program runs as it does in a pod; the seed and the shoots are the simulated ones, over HTTPS, in a process of their
own; beside it runs a bare loop that makes the same requests and drops the answers, as the floor.

From the outside in: `__main__` (the command), `cases` (what is measured), `steady`, `outage` and `odd` (how), `table`
(what is shown); `sides` (the commits that are compared), `program`, `load` and `bare` (the processes), `children`
(their lifes); `usage`, `sockets`, `scrape` (readers); `figures` (pure).
"""
