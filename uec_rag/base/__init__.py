"""The foundation of every room: Gaussians, their similarity, checks, saved folders."""

__version__ = "0.2.0"  # 2026-11-21
