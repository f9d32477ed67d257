"""The package's version, in a module that imports nothing."""

__version__ = "0.2.0"  # 2026-11-21
