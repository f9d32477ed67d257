"""Measurements: the paper's reproduction, quality on test collections, speed. Not in the wheel."""
