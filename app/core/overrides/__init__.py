"""Pauses and holds: read, cached, written, and reconciled (rules 7).

document     the text of one key to what it says, strictly, and back
rules        what of it is in force at an instant, what an unreadable key means, what is to be removed
cache        `OverrideCache`: all keys as they are now, over the watch of the ConfigMap, for prober and weeder
writer       changes one entry of one key by compare-and-swap, against others who write at the same time
service      what callers of the API and scaling runs may change
reconciler   the prober's leader fills in what kubectl left out, removes what is over, and reports it
notices      what is reported, and the metrics
"""
