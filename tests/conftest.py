"""Set before any test imports a model library: no network, no crowd of threads."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# torch, BLAS and OpenMP read this when they load; more threads only slow down inputs this small.
os.environ.setdefault("OMP_NUM_THREADS", str(min(4, os.cpu_count() or 1)))
