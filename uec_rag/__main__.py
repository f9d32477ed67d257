"""The command line, as `python -m uec_rag`."""

from uec_rag.cli import main

if __name__ == "__main__":
    main()
