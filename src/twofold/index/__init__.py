"""HybridIndex and the flows behind it."""

from twofold.index.hybrid import HybridIndex

__all__ = ["HybridIndex"]
