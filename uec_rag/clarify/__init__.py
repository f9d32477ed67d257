"""Ambiguous questions, which are asked back: "Do you mean A or B?".

`outline` tells whether a question is ambiguous, which a decision calls underspecified; `readings`
are what a user may mean, by their `titles`.
"""
