"""The weeder's decisions, as pure functions of frozen values.

- `readiness`: whether a service is ready, and which changes begin a recovery
- `deletion`: whether a pod is deleted, and what the answer to a deletion means
- `caps`: how many pods of one owner may be deleted, and how soon a service is weeded for again
"""
