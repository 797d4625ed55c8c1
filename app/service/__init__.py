"""One process of the prober, whatever cluster it is given: its parts, what it says of itself, how it runs."""
