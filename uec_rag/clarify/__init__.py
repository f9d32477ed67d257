"""What a question leaves open, and asking back: which of its readings is meant.

`outline` tells whether it is open, `readings` are what a user may mean, by their `labels`;
`replies` has the question back, and what a user replies.
"""
