"""The engines under an index: one protocol of verbs, served by an embedded store or by a Qdrant client."""
