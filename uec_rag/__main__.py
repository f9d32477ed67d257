"""The command line, as `python -m uec_rag`."""

from uec_rag.cli import main

main()
