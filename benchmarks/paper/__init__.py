"""The paper's reproduction: `python -m benchmarks.paper DATA --out OUT` writes its report.

Every claim of "Uncertainty-driven Embedding Convolution" is checked against the very code that
users run. ``data``, ``tiny`` and ``plan`` are what is measured on; ``systems`` what is compared,
``tasks`` what on; ``analyses`` what is looked into beside, one file each with its run, its maths
and its section; ``run``, ``results`` and ``report`` the way from there to the report.
``paper_numbers.csv`` holds the tables that the paper prints; ``use`` is a member of its language
experiment. `data`, `metrics` and `plots` serve the other benchmarks, too.
"""
