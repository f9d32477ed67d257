import pytest

from uec_rag.encoders.hub import family_prompts, prompts_of

BGE = "Represent this sentence for searching relevant passages: "
NONE = {"query": "", "passage": ""}


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-small-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("models/e5-small", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", BGE, ""),
        ("BAAI/bge-large-zh", "为这个句子生成表示以用于检索相关文章：", ""),
        ("Snowflake/snowflake-arctic-embed-s", BGE, ""),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", BGE, ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
    ],
)
def test_known_families_have_their_prompts(name, query, passage):
    assert family_prompts(name) == {"query": query, "passage": passage}


@pytest.mark.parametrize(
    "name",
    [
        "intfloat/multilingual-e5-large-instruct",
        "intfloat/e5-mistral-7b-instruct",
        "BAAI/bge-m3",
        "sentence-transformers/all-MiniLM-L6-v2",
        "thenlper/gte-small",
        "ibm-granite/granite-embedding-30m-english",
        "moka-ai/m3e-small",
        "",
    ],
)
def test_other_models_have_none(name):
    assert family_prompts(name) == NONE


@pytest.mark.parametrize("key", ["document", "passage", "corpus"])
def test_the_models_own_configuration_comes_first(tiny, key):
    model = tiny(prompts={"query": "Q ", key: "P "})
    assert prompts_of(model, "intfloat/e5-small") == {"query": "Q ", "passage": "P "}


def test_one_configured_prompt_is_enough_to_leave_the_other_empty(tiny):
    model = tiny(prompts={"query": "Q ", "document": ""})
    assert prompts_of(model, "intfloat/e5-small") == {"query": "Q ", "passage": ""}


def test_a_default_prompt_is_for_both_roles(tiny):
    model = tiny(prompts={"similarity": "S "}, default_prompt_name="similarity")
    assert prompts_of(model, "") == {"query": "S ", "passage": "S "}


def test_the_family_is_read_from_the_end_of_a_path_only(tiny):
    assert prompts_of(tiny(), "/data/e5-small/run/17") == NONE
    assert prompts_of(tiny(), "C:\\models\\e5-small\\")["query"] == "query: "
