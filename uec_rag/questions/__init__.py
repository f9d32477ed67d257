"""Languages, messages, and the grammar of questions."""
