import subprocess
import sys

IMPORT = "import uec_rag.llama_index"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_importing_the_adapter_imports_no_other_framework_and_no_model_library():
    done = run(f"import sys; {IMPORT}; print(*{{name.partition('.')[0] for name in sys.modules}})")
    assert "llama_index" in done.stdout.split(), done.stderr
    heavy = {"langchain", "langchain_core", "torch", "transformers", "sentence_transformers"}
    assert heavy.isdisjoint(done.stdout.split())


def test_without_llama_index_the_error_says_what_to_install():
    done = run(f"import sys; sys.modules['llama_index.core'] = None; {IMPORT}")
    assert done.stderr.endswith(
        "ImportError: The LlamaIndex adapter needs llama-index-core; install it with: "
        'pip install "uec-rag[llama-index]"\n'
    )


def test_a_llama_index_that_is_broken_inside_is_not_called_missing():
    done = run(f"import sys; sys.modules['llama_index.core.schema'] = None; {IMPORT}")
    assert "llama_index.core.schema" in done.stderr.splitlines()[-1]
    assert "pip install" not in done.stderr
