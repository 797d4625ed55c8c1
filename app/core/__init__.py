"""What both loops stand on: the vocabulary, the adapters to the outside, configuration, runtime, records, adapters."""
