"""What both loops stand on: the vocabulary, the doors to the outside, configuration, runtime, records, adapters."""
