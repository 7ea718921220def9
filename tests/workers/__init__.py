"""Tests of the workers room."""
