"""Random BERTs of a few thousand weights, as transformers saves them."""

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.5}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_bert(folder, words, kind="BertModel", change=lambda model: None, seed=0, **sizes):
    """A folder with a BERT that knows some words, after a change to its weights; and its tokenizer.

    Parameters
    ----------
    folder : path
    words : list of str
    kind : str
        A class of transformers.
    change : callable
        What is done to the model's weights.
    seed : int
    **sizes
        Of `BertConfig`, instead of those of `SIZES` or beside them.
    """
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL, *words]))
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=len(SPECIAL) + len(words), **SIZES | sizes)
    model = getattr(transformers, kind)(config)
    with torch.no_grad():
        change(model)
    model.save_pretrained(folder)
    transformers.BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
    return folder
