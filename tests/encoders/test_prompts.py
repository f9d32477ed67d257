import pytest

from tests.helpers import rows_of
from uec_rag.encoders.hub import family_prompts, prompts_of


@pytest.mark.parametrize("row", rows_of("prompts_of_families.csv"), ids=lambda row: row["name"])
def test_known_families_have_their_prompts_and_other_models_none(row):
    assert {"name": row["name"], **family_prompts(row["name"])} == row


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
