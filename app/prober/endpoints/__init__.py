"""Endpoint probes with the kubelet's semantics (rules 5): a worker for each probe and target, results, and gates."""
