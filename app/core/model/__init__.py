"""The domain model: frozen records and enums, without IO, clock or framework.

Instants are seconds since the epoch on the process's own time line (`app.core.clock`), as floats;
durations are seconds. A record holds only the fields that a rule reads.
"""
