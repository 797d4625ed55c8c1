"""The prober: probes each shoot, decides, and scales its controllers down and up again.

`rules` decides, as pure functions.  `runner` is the loop of one shoot: probe, decide, act, say when to probe again.
`lease_probe` and `path_probe` read the shoot through a `shoot_session`, `verdicts` turns what they read into a
decision.  `scaler` acts, one `scaling_run` at a time, `resource` by resource, each write allowed by the `run_guard`.
`registry` keeps the runners, `controller` starts and stops them as their Clusters come and go, and `messages` and
`scaling_messages` put into words what happened.
"""
