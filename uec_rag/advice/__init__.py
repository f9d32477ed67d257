"""A second opinion on what was found: of a language model, a decision model or a function.

`advisor` asks and `opinion` changes a decision by it; `decision_models` gives probabilities,
`rewrites` checks another question, `log` keeps all.
"""
