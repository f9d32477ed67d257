"""Servers for a saved index: an HTTP API, an MCP server for agents, and a page in the browser."""
