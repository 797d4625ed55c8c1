"""Worlds of the weeder: control planes whose services come and go, and pods that wait in CrashLoopBackOff.

- `recipe`, `world`: one world from its seed to what came of it
- `process`, `doors`: runs of the weeder, and its adapters to the seed with everybody who watches them
- `draws`, `people`: what goes wrong, and what people do
- `sight`, `ledger`, `waits`, `invariants`: what a process was told, what truly happened, and what must be true of it
- `plants`: defects that are made on purpose
"""
