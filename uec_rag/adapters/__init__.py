"""Parts that the adapters to frameworks, the server and the commands share.

`indexes` are made of what a framework passes, `other_retrievers` has the hits that others hand on,
`tool` the replies to agents and programs.
"""
