"""HybridIndex and the flows behind it."""

from twofold.index.doctor import Diagnosis, Finding, adiagnose, diagnose
from twofold.index.hybrid import HybridIndex

__all__ = ["Diagnosis", "Finding", "HybridIndex", "adiagnose", "diagnose"]
