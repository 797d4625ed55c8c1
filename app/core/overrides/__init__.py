"""Pauses, ScaleRequests and the holds that follow from them (rules 7).

cache        `OverrideCache`: the overrides as they are now, for prober, weeder and API; their metrics
service      the writes, read back where their outcome is not known
reconciler   the prober's leader reports Pauses, shows their end, and deletes what is long over

A ScaleRequest is carried out by `app.prober.scaling.manual`.
"""
