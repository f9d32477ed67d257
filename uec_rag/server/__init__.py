"""A saved index looked at in a browser, asked over HTTP, handed to agents, and evaluated."""
