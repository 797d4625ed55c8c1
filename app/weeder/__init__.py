"""The weeder: deletes pods that wait in CrashLoopBackOff as soon as the service that they depend on is ready again.

Their controllers make new ones, which start without a back-off. `rules` decides, as pure functions. `controller`
follows the readiness of services, and `recovery` keeps at most one recovery for each. A recovery watches pods, queues
those that are to be deleted, waits for a turn of the shared rate, and deletes them; `deletions` has its queue, that
rate, and its log of what became of each pod, and why. `messages` makes the notices, and `environment` has what all
recoveries share.
"""
