"""Measure an index, compare it with simpler searches, and inspect it."""
