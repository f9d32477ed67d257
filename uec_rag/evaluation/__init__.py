"""Measure an index, compare it with simpler searches, and inspect it.

`evaluate` compares searches on labels, and reads logs of others; `labelling` reads labels.
"""
