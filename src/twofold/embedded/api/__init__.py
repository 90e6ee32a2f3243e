"""The methods of QdrantBase over a store, by subject."""
