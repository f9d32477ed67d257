"""Nothing leaves this machine: no library that we load collects."""

import os
import subprocess
import sys

SEARCH = """
from uec_rag import Retriever, UEC
index = Retriever(UEC())
index.add(["Cats purr."])
index.search(["What purrs?"])
"""


def test_a_search_leaves_nothing_for_the_makers_of_a_library_in_the_home(tmp_path):
    from uec_rag.encoders.packages import cache_folder

    environment = os.environ | {"HOME": str(tmp_path), "UEC_CACHE": str(cache_folder())}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / ".cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", SEARCH], env=environment, check=True)
    left = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path in left if "Microsoft" in path.parts]
