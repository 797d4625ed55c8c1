"""The HTTP API: status, shoots, history and overrides for people and scripts; health; metrics.

Reads answer from memory; the one exception is `resources`, which reads the dependents of a shoot live.
"""
