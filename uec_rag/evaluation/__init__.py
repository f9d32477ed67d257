"""Measure an index, compare it with simpler searches, and inspect it.

`evaluate` compares searches on labels, `labels` reads these, `runs` reads logs of others.
"""
