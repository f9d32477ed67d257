"""The foundation of every room: Gaussians, their similarity, checks, saved folders.

`gaussian`, `similarity` and `counts` have the arithmetic; `text`, `checks` and `model_replies` what
comes in; `records`, `files` and `errors` what is kept and told.
"""

__version__ = "0.2.0"  # 2026-11-21
