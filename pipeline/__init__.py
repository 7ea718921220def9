"""The mind: frozen facts in, one named decision out.

This room is pure. It has no clock, no randomness, no I/O and no framework, and imports nothing of the other
rooms: time, ids and chance are arguments. What it decides can therefore be replayed from the facts alone.
"""
