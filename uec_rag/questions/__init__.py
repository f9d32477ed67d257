"""What people write: languages, messages, and the grammar of questions."""
