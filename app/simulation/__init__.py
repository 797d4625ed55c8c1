"""A seed and its shoots inside the process, behind the same ports as real ones; on virtual time where the loop's is."""
