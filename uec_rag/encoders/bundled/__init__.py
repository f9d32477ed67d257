"""Encoders whose weights come out of packages."""
