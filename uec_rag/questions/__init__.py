"""Questions as people write them: languages, messages, turns, replies, and their grammar.

`languages` comes first, with languages.toml, and sentences.toml, which has all that users read;
`user_messages` finds the part of a message that asks, `grammar` its parts, `answers` what an answer
offered, `replies` what a user says when asked back. A `query` is the question in its conversation,
a `phrasing` a way to ask it.
"""
