"""Endpoint probes as the kubelet has them (spec 5): a worker for each probe and target, and what they found."""
