import pytest

from uec_rag.encoders.hub import family_prompts, prompts_of

BGE = "Represent this sentence for searching relevant passages: "


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
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("intfloat/e5-mistral-7b-instruct", "", ""),
        ("BAAI/bge-m3", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("ibm-granite/granite-embedding-30m-english", "", ""),
        ("moka-ai/m3e-small", "", ""),
        ("", "", ""),
    ],
)
def test_known_families_have_their_prompts_and_other_models_none(name, query, passage):
    assert family_prompts(name) == {"query": query, "passage": passage}


SIMILAR = {"prompts": {"similarity": "S "}, "default_prompt_name": "similarity"}


@pytest.mark.parametrize(
    ("options", "name", "query", "passage"),
    [
        *(
            ({"prompts": {"query": "Q ", key: "P "}}, "intfloat/e5-small", "Q ", "P ")
            for key in ("document", "passage", "corpus")
        ),
        ({"prompts": {"query": "Q ", "document": ""}}, "intfloat/e5-small", "Q ", ""),
        (SIMILAR, "", "S ", "S "),
        ({}, "/data/e5-small/run/17", "", ""),  # of a path the end is read
        ({}, "C:\\models\\e5-small\\", "query: ", "passage: "),
    ],
)
def test_the_models_own_configuration_comes_before_its_family(tiny, options, name, query, passage):
    assert prompts_of(tiny(**options), name) == {"query": query, "passage": passage}
