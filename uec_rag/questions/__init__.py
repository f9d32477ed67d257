"""Languages, messages, and the grammar of questions.

`languages` comes first, with languages.toml; `messages` finds what asks in a message, `grammar` its
parts, `answers` what an answer offered.
"""
