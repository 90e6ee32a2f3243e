"""Code leans on meaning, prose on words: seen from the texts, whoever wrote them, and not from a few of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faces import Face
from twofold import BM25, Document, HybridIndex, Memory, embedded_client
from twofold.encoders.base import DenseEncoder
from twofold.engine.layout import RECORD_KEY
from twofold.testing import HashEmbedding
from twofold.text import has_code, looks_like_code

CODE = [f"def load_{n}(path):\n    with open(path) as file:\n        return json.load(file)[{n}]" for n in range(40)]
PROSE = [f"Note {n}: the gateway was moved to the new cluster, and nobody noticed." for n in range(40)]
QUESTION = "how do I read a file?"
PROSE_ALPHA = 0.25


def alpha(index: Any, query: str = QUESTION) -> float:
    hit = index.search(query, explain=True)[0]
    assert hit.explanation is not None
    return float(hit.explanation.alpha)


def test_a_collection_of_code_leans_on_meaning(open_index: Callable[..., Face]) -> None:
    code, prose = open_index("code"), open_index("prose")
    code.add(CODE)
    prose.add(PROSE)
    assert alpha(prose) == pytest.approx(PROSE_ALPHA)
    assert alpha(code) > 0.65
    assert alpha(prose) < alpha(code, "load_7(path)") < alpha(code)
    assert alpha(prose, "load_7(path)") == alpha(prose)


def test_it_is_seen_again_after_reopening(tmp_path: Path) -> None:
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add(CODE)
        leaning = alpha(index)
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        assert alpha(index) == pytest.approx(leaning)


def test_the_more_code_the_more_meaning() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(PROSE)
        seen = [alpha(index)]
        for start in range(0, 40, 20):
            index.add(CODE[start : start + 20])
            seen.append(alpha(index))
        assert seen == sorted(set(seen))


def test_a_snippet_among_notes_changes_nothing() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([*PROSE, CODE[0]])
        assert alpha(index) == pytest.approx(PROSE_ALPHA)


def test_what_others_write_is_seen_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        HybridIndex.open(tmp_path, dense=HashEmbedding()) as ours,
        HybridIndex.open(tmp_path, dense=HashEmbedding()) as theirs,
    ):
        ours.add(PROSE[:1])
        assert alpha(ours) == pytest.approx(PROSE_ALPHA)
        theirs.add(CODE)
        assert alpha(ours) == pytest.approx(PROSE_ALPHA), "not yet"
        later = time.monotonic() + 120
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert alpha(ours) > 0.65


def test_it_does_not_matter_who_wrote_what(tmp_path: Path) -> None:
    """A process that has written some of it sees what one sees that has just opened it."""
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add([f"{text} Part {n}." for n in range(10) for text in PROSE])
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add(CODE)
        leaning = alpha(index)
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        assert alpha(index) == leaning
    assert leaning < 0.35


def test_what_is_written_again_counts_once_and_what_is_deleted_not_at_all() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(PROSE)
        for _ in range(40):
            index.add([Document(CODE[0], id="same")])
        assert alpha(index) == pytest.approx(PROSE_ALPHA)
        index.add([Document(text, id=f"c{n}") for n, text in enumerate(CODE)])
        assert alpha(index) > 0.4
        index.delete([f"c{n}" for n in range(len(CODE))])
        assert alpha(index) == pytest.approx(PROSE_ALPHA)


def test_users_do_not_shift_each_other() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as ada:
        ada.remember_many(PROSE)
        before = ada.recall(QUESTION).alpha
        ada.for_user("bob").remember_many(CODE)
        assert ada.recall(QUESTION).alpha == before
        assert (ada.for_user("bob").recall(QUESTION).alpha or 0) > 0.6


def test_an_alpha_of_ones_own_stays() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(CODE)
        (hit,) = index.search(QUESTION, k=1, alpha=0.2, explain=True)
        assert hit.explanation is not None
        assert hit.explanation.alpha == pytest.approx(0.2)


def test_a_memory_says_why_it_leans() -> None:
    with Memory.open(":memory:", user="ada", dense=HashEmbedding()) as memory:
        memory.remember_many(CODE)
        assert "90% of what is stored is code" in memory.recall(QUESTION).alpha_reason
        assert "so is the query" in memory.recall("load_7(path)").alpha_reason


def test_a_collection_from_before_pairs_keeps_its_own_weights(tmp_path: Path) -> None:
    """Its record has no word of delta and pairs, and its vectors have neither."""
    with HybridIndex.open(tmp_path, dense=HashEmbedding(), sparse=BM25(delta=0, pairs=0)) as index:
        index.add([Document("rate limit of the gateway", id="old")])
    with closing(embedded_client(tmp_path)) as client:
        record = dict((client.get_collection("twofold").config.metadata or {})[RECORD_KEY])
        record["sparse"] = {key: value for key, value in record["sparse"].items() if key not in ("delta", "pairs")}
        client.update_collection("twofold", metadata={RECORD_KEY: record})
    with HybridIndex.open(tmp_path, dense=HashEmbedding()) as index:
        index.add([Document("rate limit of the gateway", id="new")])
        one, other = index.search("rate limit", alpha=0.0)
        assert one.score == pytest.approx(other.score)


@pytest.mark.parametrize(
    "text",
    [
        "for f in *.log; do gzip $f; done",
        "SELECT id FROM users WHERE age > 21;",
        "x = {k: v for k, v in y}",
        "docker compose up -d",
        "tar --extract --file backup.tar",
        'fn main() { println!("hi"); }',
        'def even(n):\n    """Whether it is even, as those who call it want to know."""\n    return n % 2 == 0',
    ],
)
def test_code_is_told_by_its_symbols(text: str) -> None:
    assert looks_like_code(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "We met (again), in Oslo; it rained.",
        "The a_b test ran for two weeks, and B won by a small margin.",
        "The dashboards are at https://grafana.example.org/ops, ask Ada for an account.",
        "# Set-up\n\n- install the package\n- run the tests\n- read the [docs](https://example.org/a/b)",
        "| name | age |\n|---|---|\n| Ada | 36 |",
        "Revenue grew by 12% to $3.4 million, R&D and/or marketing by 5%.",
        "{vocalsound} so we {disfmarker} decided on the remote [1], [2].",
        "Mail ada@example.org or bob@example.org. #urgent",
        "Run `make test` before you commit, then look into /var/log/app.log.",
        "[10:02] Ada: I will be there at eleven",
    ],
)
def test_prose_is_not_code(text: str) -> None:
    assert not looks_like_code(text)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("parse_args", True), ("checkRateLimit", True), ("main() fails", True), ("find *.py", True), ("os.path", True),
        ("iPhone at McDonald", False), ('"the very words"', False), ("3.5 percent in the U.S.", False),
        ("how do I read a file?", False), ("Who won in 2014?", False), ("E. coli, and so on", False),
    ],
)  # fmt: skip
def test_a_query_in_code(query: str, code: bool) -> None:
    assert has_code(query) == code


PORTUGUESE = [f"O relatório {n} não foi enviado aos clientes, mas está pronto para eles." for n in range(40)]


def english_only() -> DenseEncoder:
    model = HashEmbedding()
    return DenseEncoder(
        name="english-only",
        dim=len(model.embed_query("x")),
        languages=frozenset({"english"}),
        embed_documents=model.embed_documents,
        embed_query=model.embed_query,
    )


def test_a_language_that_the_model_does_not_know_leans_on_words_though_nobody_named_it(
    open_index: Callable[..., Face],
) -> None:
    index = open_index(dense=english_only())
    index.add(PORTUGUESE)
    assert alpha(index, "relatório pronto") < 0.15
    other = open_index("any", dense=HashEmbedding())
    other.add(PORTUGUESE)
    assert alpha(other, "relatório pronto") == pytest.approx(PROSE_ALPHA), (
        "a model that names no languages counts as knowing all"
    )


def test_two_languages_lie_between() -> None:
    with HybridIndex.open(":memory:", dense=english_only()) as index:
        index.add([*PROSE, *PORTUGUESE])
        assert 0.12 < alpha(index, "gateway") < 0.22
