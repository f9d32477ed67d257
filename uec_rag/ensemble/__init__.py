"""Ensembles of encoders that embed each text as one Gaussian.

`convolution` has the weights, `fitted` applies them, `fit` learns them; `uec` is what users have,
`ensemble_file` keeps it.
"""

from uec_rag.ensemble.uec import UEC

__all__ = ["UEC"]
