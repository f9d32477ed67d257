"""A second opinion on what was found: of a language model, a decision model or a function."""
