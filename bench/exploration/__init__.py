"""Seeded worlds in which everything goes wrong that can, and what must hold in them all the same.

- `timeline`: virtual time, and an event loop for each machine on it, which can be paused and destroyed
- `life`, `process`, `instances`, `line`: runs of the watchdog on machines of their own, and their way to the servers
- `hearing`: what a process is told of the overrides, by its lists, watches and answers
- `director`, `draws`, `people`, `operators`: what happens, drawn by chance
- `path_draws`, `paths`, `path_invariants`, `path_plants`: the same for worlds in endpoint mode, where two paths decide
- `ledger`, `facts`, `wishes`, `invariants`: what truly happened and was wished for, and what must be true of it
- `kinds`, `recipe`, `world`, `play`, `story`: one world from its seed to what came of it
- `boundaries`, `strikes`: a kill at every boundary of every request of a scaling run, in turn
- `weeder`: the same for worlds of the weeder
- `plants`, `adapter_plants`: defects that are made on purpose, to see them found

`python -m bench.explore` runs them; docs/exploration.md tells what was found.
"""
