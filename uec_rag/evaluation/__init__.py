"""What an index is worth: measured, beside plainer searches, and looked into."""
