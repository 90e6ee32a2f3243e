"""Text to vectors: dense models for meaning, sparse ones for words."""
