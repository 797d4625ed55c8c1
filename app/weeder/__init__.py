"""The weeder: deletes pods that wait in CrashLoopBackOff as soon as the service that they depend on is ready again.

Their controllers make new ones, which start without a back-off. `rules` decides, as pure functions. `controller`
follows the readiness of services, `registry` keeps at most one `recovery` for each. A recovery watches pods, queues
those that `rules.deletion` wants deleted, waits for a turn of the shared budget (`deletion_queue`), and sends
`deletions`; `recovery_log` remembers what was deleted and what was left alone, and why. `messages` makes the notices,
`selector_check` warns of selectors that match nothing, and `environment` has what all recoveries share.
"""
