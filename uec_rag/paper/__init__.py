"""The paper: its systems, tasks and analyses, and the report that `uec-rag evaluate` writes.

In the package, and not a distribution of its own: `uec-rag evaluate --data DIR` is what users
compare ensembles with on collections of their own, and every claim of the paper is checked against
the very code that they run. A distribution of its own would have to follow each change of the
ensemble's inside at the same version. What it costs a user is the bytes on disk: nothing outside
this folder and ``uec-rag evaluate`` imports it, and what it needs beside the core is an extra
(``evaluation``, ``plots``).

Where things are: ``collections``, ``labelled``, ``plan``, ``tiny`` are the data; ``systems/`` what
is compared; ``tasks/`` what on; ``analyses/`` what is looked into beside, one file each with its
run and its section; ``run``, ``results``, ``report``, ``tables``, ``figures`` the way from there to
the report; ``metrics``, ``scoring``, ``similarities``, ``plots`` are for use on their own, too.
"""
