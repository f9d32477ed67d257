"""What every store over somebody's vector database shares."""
