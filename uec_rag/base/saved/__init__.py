"""Folders that are written whole or not at all, and read back checked."""
