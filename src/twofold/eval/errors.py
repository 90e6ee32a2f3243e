"""What goes wrong in an evaluation."""

from __future__ import annotations

from twofold.errors import TwofoldError


class EvaluationError(TwofoldError, ValueError):
    """Questions that can't be read, a retriever that can't be asked, or runs that can't be compared."""
