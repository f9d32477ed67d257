"""Measuring retrieval and uncertainty on test collections."""
