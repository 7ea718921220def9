"""Benchmarks: each figure is a ratio against a floor or a peer that is measured in the same run, on the same machine."""
