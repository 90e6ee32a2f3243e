"""Fitting the fusion to a collection: from pairs of queries and answers, or from the collection alone."""

from __future__ import annotations

from twofold.tuning.calibration import Calibration, calibrate
from twofold.tuning.choosing import Tuning, choose
from twofold.tuning.pairs import Pair, as_pairs
from twofold.tuning.settings import describe, restore

__all__ = ["Calibration", "Pair", "Tuning", "as_pairs", "calibrate", "choose", "describe", "restore"]
