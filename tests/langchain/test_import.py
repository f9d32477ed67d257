import subprocess
import sys

IMPORT = "import uec_rag.langchain as adapter"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_importing_the_adapter_imports_no_other_framework_and_no_model_library():
    done = run(f"import sys; {IMPORT}; print(*{{name.partition('.')[0] for name in sys.modules}})")
    assert "langchain_core" in done.stdout.split(), done.stderr
    heavy = {"llama_index", "torch", "transformers", "sentence_transformers", "laplace", "sklearn"}
    assert heavy.isdisjoint(done.stdout.split())


def test_without_langchain_the_error_says_what_to_install():
    done = run(f"import sys; sys.modules['langchain_core'] = None; {IMPORT}")
    assert done.stderr.endswith(
        "ImportError: The LangChain adapter needs langchain-core; install it with: "
        'pip install "uec-rag[langchain]"\n'
    )


def test_a_langchain_that_is_broken_inside_is_not_called_missing():
    done = run(f"import sys; sys.modules['langchain_core.documents'] = None; {IMPORT}")
    assert "langchain_core.documents" in done.stderr.splitlines()[-1]
    assert "pip install" not in done.stderr
