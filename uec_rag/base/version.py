"""The package's version, for whoever may not import its front door."""

__version__ = "0.2.0"  # 2026-11-21
