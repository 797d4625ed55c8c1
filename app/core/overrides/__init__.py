"""Pauses and holds: read, cached, written, and reconciled (rules 7).

document     parses the JSON text of one key strictly, and encodes it
rules        what is in force at an instant, what an unreadable key means, which keys are read
cache        `OverrideCache`: all keys as they are now, from the watch of the ConfigMap, for prober and weeder
writer       changes one entry of one key by compare-and-swap against concurrent writers
service      what callers of the API and scaling runs may change
reconciler   the prober's leader completes what kubectl left out, removes expired entries, and reports changes
notices      the notices about overrides, and their metrics
"""
