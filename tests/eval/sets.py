"""A small set: notes, questions about them, and one question that nothing answers."""

from __future__ import annotations

import json
from pathlib import Path

from twofold import Document
from twofold.eval import Dataset, Question

NOTES = {
    "rate": "checkRateLimit rejects a client after a hundred requests a minute",
    "tunnel": "rathole tunnels listen on port 2333 and forward to the home server",
    "reset": "ERR_CONN_RESET appears when the proxy closes idle connections",
    "backup": "the backup of the home server runs every night at three",
    "cats": "cats sleep most of the day <b>and</b> hunt at night",
}
QUESTIONS = {
    "q1": ("which port do rathole tunnels use", {"tunnel": 1.0}),
    "q2": ("ERR_CONN_RESET", {"reset": 1.0}),
    "q3": ("what happens at night on the home server", {"backup": 2.0, "cats": 1.0}),
    "q4": ("requests a client may send", {"rate": 1.0}),
    "q5": ("zebra quantum", {}),
}


def small() -> Dataset:
    questions = (Question(i, text, relevant, None, {"kind": i}) for i, (text, relevant) in QUESTIONS.items())
    documents = (Document(text, i, {"length": len(text)}) for i, text in NOTES.items())
    return Dataset("notes", tuple(questions), tuple(documents))


def write_beir(folder: Path, *, qrels: str = "qrels.tsv") -> Path:
    (folder / qrels).parent.mkdir(parents=True, exist_ok=True)
    corpus = [{"_id": i, "title": "", "text": text, "metadata": {"topic": i}} for i, text in NOTES.items()]
    asked = [{"_id": i, "text": text, "metadata": {"topic": i}} for i, (text, _) in QUESTIONS.items()]
    judged = [(i, d, g) for i, (_, relevant) in QUESTIONS.items() for d, g in relevant.items()]
    rows = ["query-id\tcorpus-id\tscore", *(f"{i}\t{d}\t{g:g}" for i, d, g in judged)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)) + "\n", "utf-8")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)) + "\n", "utf-8")
    (folder / qrels).write_text("\n".join(rows) + "\n", "utf-8")
    return folder
