"""The mind. Frozen values in, named decisions out.

A module here may import only the standard library's pure parts, `cryptography`, `yaml` and this room: no clock, no
randomness, no input or output, no framework. What it computes is the same in every process, so the ledger, the
workers and the doors can all ask it.
"""
