"""Pauses and holds: read, kept, written, and looked after (rules 7).

fields, document    one key's text to what it says, strictly, and back
rules               what of it is in force at an instant; what an unreadable key means
book                `Overrides`: all keys as they are now, over the watch of the ConfigMap
weeding             the same as the weeder asks for it
writer, desk        one entry of one key changed, against others who write at the same time
tidying, upkeep     the prober's leader fills in, removes, and tells
telling             what it tells
gauges              the metrics
"""
