"""The comparison with the peers runs, on a set and vectors of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.quality import __main__ as quality
from benchmarks.quality import fitting, floor, sets, table, vectors
from benchmarks.quality.systems import SYSTEMS, USUAL
from tests.eval.sets import write_beir
from twofold.encoders import models
from twofold.encoders.base import DenseEncoder
from twofold.testing import HashEmbedding


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A folder with one set, and a model that counts what it embeds."""
    write_beir(tmp_path / "data" / "notes")
    counts: list[int] = []
    hashed = HashEmbedding(384)

    def embed(what: str, texts: Any, model: DenseEncoder, chunk: int | None) -> Any:
        counts.append(len(texts))
        return np.asarray(hashed.embed_documents(texts), dtype=np.float32)

    monkeypatch.setattr(vectors, "_embed", embed)
    bundled = models.resolve_dense(None)
    # What a search asks besides, to see what scores mean, is embedded alike.
    mine = replace(bundled, embed_query=lambda text: np.asarray(hashed.embed_query(text), dtype=np.float32))
    monkeypatch.setattr(models, "resolve_dense", lambda name=None: mine)
    monkeypatch.setattr(
        sets, "KNOWN", {"notes": sets.Known(same=None, apart=("topic", "q4"), published={"words": 0.9})}
    )
    monkeypatch.chdir(tmp_path)
    return counts


def test_every_system_answers_and_vectors_are_kept(
    cached: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    quality.main(["--data", "data", "--html", "reports", "--json", "figures.json"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in USUAL)
    assert "mean of 1" in shown
    assert "notes, topic q4" in shown
    assert "notes, words: nDCG@10" in shown
    assert (tmp_path / "reports" / "notes.html").is_file()
    assert (tmp_path / "figures.json").is_file()
    quality.main(["--data", "data", "--systems", *(system.name for system in SYSTEMS)])
    shown = capsys.readouterr().out
    assert all(system.name in shown for system in SYSTEMS)
    assert cached == [5, 4], "the second run embeds nothing"


def test_peers_search_within_a_filter(cached: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sets, "KNOWN", {"notes": sets.Known(same="topic")})
    corpus = tmp_path / "data" / "notes" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace('"topic": "tunnel"', '"topic": "q1"'))
    data = sets.read(tmp_path / "data" / "notes")
    material = vectors.material(data, "english", tmp_path / "cache")
    for system in SYSTEMS:
        run = quality._run(system, material, 10)
        assert [answer.ids for answer in run.answers] == [["tunnel"], [], [], []], system.name


def test_without_data_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"there is no folder .*not part of the project.* corpus.jsonl, .*--data"):
        quality.main(["--data", str(tmp_path / "none")])
    monkeypatch.setenv("TWOFOLD_EVAL_DATA", str(tmp_path))
    for program in (quality, fitting, floor):
        with pytest.raises(SystemExit, match=f"there is no set in {tmp_path}: .*TWOFOLD_EVAL_DATA"):
            program.main([])
    with pytest.raises(SystemExit):
        quality.main(["--help"])
    assert "not part of the project" in " ".join(capsys.readouterr().out.split())
    write_beir(tmp_path / "notes")
    with pytest.raises(SystemExit, match="has no scifact: it has notes"):
        sets.find(tmp_path, ["scifact"])


def test_fitting_shows_what_tuning_brings(
    cached: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    fitting.main(["--data", "data"])
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if "notes" in line)
    _, default, tuned, tuning = (cell.strip() for cell in row.split("│")[1:-1])
    assert default == tuned
    assert tuning.startswith("the default stays")


def test_the_floor_keeps_answers_and_turns_strangers_away(
    cached: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sets.KNOWN, "kitchen", sets.Known("cooking"))  # another family, so that questions are foreign
    kitchen = write_beir(tmp_path / "data" / "kitchen")
    (kitchen / "corpus.jsonl").write_text(
        '{"_id": "soup", "text": "leek soup wants nutmeg"}\n{"_id": "pie", "text": "cherries make a pie"}\n'
    )
    (kitchen / "queries.jsonl").write_text('{"_id": "a", "text": "nutmeg with leek"}\n')
    (kitchen / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\na\tsoup\t1\n")
    floor.main(["--data", "data", "--sets", "notes", "kitchen", "--asked", "3"])
    rows = {tuple(cell.strip() for cell in line.split("│")[1:-1]) for line in capsys.readouterr().out.splitlines()}
    assert ("notes", "3", "100.0%", "1", "100.0%", "3", "100.0%") in rows
    assert ("kitchen", "1", "100.0%", "3", "100.0%", "2", "100.0%") in rows


def test_published_figures_stand_beside_the_measured() -> None:
    assert table.published({}) == []
    assert sets.known("scifact-train").published == {"dense": 0.645, "qdrant-bm25": 0.687}
    assert sets.known("anything else") == sets.Known()
