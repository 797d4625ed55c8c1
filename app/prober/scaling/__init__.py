"""Scaling runs: what they are begun for, how they go, and how people ask for them (rules 4.3, 7).

context      what a run is begun for, the guard that says whether it may go on, what its resources share, its result
resource     one resource in one run: decide, wait, write, wait for its pods
run          one run, level by level, and the `Scaler` of a shoot, which begins and ends its runs
manual       carries out ScaleRequests, and releases protections that have lasted too long
operations   what the API asks: scaling runs as operations, the dependents live, ignore-scaling
"""
