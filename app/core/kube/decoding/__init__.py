"""Decodes the JSON of API servers into the records that rules read; pure, and the only place that knows the format.

Only the few needed fields are decoded; msgspec skips the rest without creating objects for it. Real servers send `null`
for what Go omits, so every optional member may be `null`, too.
"""
