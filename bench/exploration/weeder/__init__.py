"""Worlds of the weeder: control planes whose services come and go, and pods that wait in CrashLoopBackOff.

- `recipe`, `world`, `boundaries`: one world from its seed to what came of it, and a kill at every boundary
- `process`: runs of the weeder
- `draws`, `people`: what goes wrong, and what people do
- `sight`, `ledger`, `facts`, `waits`, `invariants`: what a process was told, what truly happened, and what must hold
- `plants`: defects that are made on purpose
"""
