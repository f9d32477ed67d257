"""Languages, messages, and the grammar of questions.

`languages` comes first, with languages.toml, and sentences.toml, which has all that users read;
`user_messages` finds the part of a message that asks, `grammar` its parts, `answers` what an answer
offered; a `phrasing` is a way to ask.
"""
