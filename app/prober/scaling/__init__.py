"""Scaling runs: what they are begun for, how they go, and how people ask for them (rules 4.3, 7).

resource     one resource in one run: decide, wait, write, wait for its pods; what runs remember of it
run          one run, level by level, the guard that ends it, and the `Scaler` of a shoot, which begins its runs
manual       carries out ScaleRequests: runs that people ask for, and their holds; asks for one that ends a protection
             which has lasted too long
operations   what the API asks: scaling runs as operations, the dependents live, ignore-scaling
"""
