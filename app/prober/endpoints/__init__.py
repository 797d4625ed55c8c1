"""Endpoint probes as the kubelet has them (rules 5): a worker for each probe and target, and what they found."""
