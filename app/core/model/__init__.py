"""The vocabulary: frozen records and enums of the domain, without IO, clock or framework.

Instants are seconds since the epoch on the process's own time line (`app.core.clock`), as floats;
durations are seconds.  A record holds only what a rule reads.
"""
