"""qdrant_client.models → qdrant_edge, checked on the way.

The engine writes an operation to its log before it looks at it closely, and may apply a rejected one when the
log is replayed: whatever passes here must be something the engine accepts as a whole.
"""
