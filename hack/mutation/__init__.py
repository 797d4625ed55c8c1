"""Mutation runs: small changes of the program, and whether a test notices them."""
