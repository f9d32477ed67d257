"""Evaluation of an index: measured, compared with plainer searches, and inspected."""
