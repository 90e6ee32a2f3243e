"""Measuring retrieval: hit rate, MRR, nDCG, recall and latency of any retriever, on your own questions.

Needs the extra `eval`: pip install 'twofold[eval]'.
"""

from __future__ import annotations

from twofold.errors import EvaluationError
from twofold.eval.corpus import CorpusIndex, CorpusMemory
from twofold.eval.data import Dataset, Question, load
from twofold.eval.report import plot, write_report
from twofold.eval.running import Sweep, evaluate, sweep
from twofold.eval.scoring import Answer, Change, Comparison, Run, compare

__all__ = [
    "Answer",
    "Change",
    "Comparison",
    "CorpusIndex",
    "CorpusMemory",
    "Dataset",
    "EvaluationError",
    "Question",
    "Run",
    "Sweep",
    "compare",
    "evaluate",
    "load",
    "plot",
    "sweep",
    "write_report",
]
