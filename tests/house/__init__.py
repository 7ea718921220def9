"""Tests of the house itself: its shape, its arrows, its packaging and its documents."""
