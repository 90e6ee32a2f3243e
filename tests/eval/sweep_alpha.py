"""How alpha moves recall on the project's own ground truth: `python tests/eval/sweep_alpha.py`.

Any other argument of `recall` or setting of `MemoryConfig` can be swept as well:
`python tests/eval/sweep_alpha.py tag_weight 0 0.5 1 1.5`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file, the tests are no package

from rich.console import Console
from rich.table import Table

from tests.eval.own import CONFIG, recaller
from twofold import MemoryConfig
from twofold.eval import Run

ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
METRICS = ("hit_rate", "mrr", "ndcg")


def main(words: list[str]) -> None:
    name, values = (words[0], [_value(word) for word in words[1:]]) if len(words) > 1 else ("alpha", list(ALPHAS))
    table = Table(title=f"own ground truth by {name}", title_justify="left")
    for column in (name, *METRICS, "nothing answered with nothing", "lost to the floor"):
        table.add_column(column, justify="right")
    for value, run in sweep(name, values):
        shares = [f"{share:.3f}" if share is not None else "" for share in (run.answered_nothing, run.unanswered)]
        table.add_row(str(value), *(f"{run[metric]:.3f}" for metric in METRICS), *shares)
    Console().print(table)


def sweep(name: str, values: list[Any]) -> list[tuple[Any, Run]]:
    """One run for each value. Settings need memories of their own, arguments of `recall` don't."""
    if name in MemoryConfig.model_fields and name not in ("alpha", "fusion", "depth", "min_score"):
        return [(value, _with_setting(name, value)) for value in values]
    with recaller() as memories:
        return [(value, memories.evaluate(**{name: value})) for value in values]


def _with_setting(name: str, value: Any) -> Run:
    with recaller(MemoryConfig(**{**dict(CONFIG), name: value})) as memories:
        return memories.evaluate()


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


if __name__ == "__main__":
    main(sys.argv[1:])
