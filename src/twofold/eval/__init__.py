"""Measuring retrieval: hit rate, MRR, nDCG, recall and latency of any retriever, on your own questions.

Needs the extra `eval`: pip install 'twofold[eval]'.
"""

from __future__ import annotations

from twofold.eval.charts import plot
from twofold.eval.comparing import Change, Comparison, compare
from twofold.eval.corpus import CorpusIndex
from twofold.eval.corpus_memory import CorpusMemory
from twofold.eval.data import Dataset, Question, load
from twofold.eval.errors import EvaluationError
from twofold.eval.report import write_report
from twofold.eval.running import Sweep, evaluate, sweep
from twofold.eval.runs import Answer, Run

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
