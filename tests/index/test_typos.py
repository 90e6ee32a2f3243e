"""A mistyped word is read as the one that documents have, in both legs, and the result says so."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from benchmarks.typos import slip
from tests.faces import Face
from twofold import Document, HybridIndex, SearchConfig
from twofold.encoders.bm25 import dictionary_words, known_words
from twofold.testing import HashEmbedding

Opener = Callable[..., Face]
NOTES = {
    "tunnel": "Rathole tunnels listen on port 2333.",
    "code": "Error E4021 comes before ERR_CONN_RESET, and E4025 after it.",
    "function": "def checkRateLimit(user): counts the requests of a user.",
    "film": "The Matrix is a film about a simulated world.",
    "space": "Interstellar: explorers travel through a wormhole.",
    "milk": "The dairy delivers fresh milk to the kitchen.",
    "backup": "Backups of the warehouse are stored in Reykjavik.",
}


class Noting(HashEmbedding):
    """Remembers what it was asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return super().embed_query(text)


def filled(face: Face) -> Face:
    face.add([Document(text, id=name, metadata={"owner": "ada"}) for name, text in NOTES.items()])
    return face


@pytest.mark.parametrize(("query", "found", "corrections"), [
    ("rathoel port", "tunnel", {"rathoel": "rathole"}), ("the MATRIZ", "film", {"matriz": "matrix"}),
    ("E4201", "code", {"e4201": "e4021"}), ("checkRateLimt", "function", {"checkratelimt": "checkRateLimit"}),
    ("intersteler", "space", {"intersteler": "interstellar"}), ("reykjavk backpus", "backup",
     {"reykjavk": "reykjavik", "backpus": "backups"}),
])  # fmt: skip
def test_a_slip_ranks_like_the_right_word_and_is_told(
    open_index: Opener, query: str, found: str, corrections: dict[str, str]
) -> None:
    index = filled(open_index())
    result = index.search(query, explain=True)
    assert result.ids[0] == found
    assert (result.query, result.corrections, result.degraded) == (query, corrections, None)
    why = result[0].explanation
    assert why is not None
    assert why.corrections == corrections
    assert set(corrections.values()) <= set(why.matched_words)
    assert all(f"{wrong} read as {right}" in str(why) for wrong, right in corrections.items())
    right = query.lower()
    for wrong, meant in corrections.items():
        right = right.replace(wrong, meant)
    same = index.search(right)
    assert not same.corrections
    assert {hit.id: hit.score for hit in same} == pytest.approx({hit.id: hit.score for hit in result})


def test_words_stay_what_they_are(open_index: Opener) -> None:
    """Words of the model's vocabulary, words that are stored, other codes, quotes, numbers, short words."""
    index = filled(open_index())
    for query in (
        "daily milk",
        "the diary and the backpacks of a simulator",  # in no text: near "dairy", "backups", "simulated"
        "rathole",
        "E4025",
        "E4022",
        '"rathoel"',
        "`matriz`",
        "«matriz»",
        "23333",
        "fiml",
        "ERR",
    ):
        assert index.search(query).corrections == {}, query


def test_what_was_just_written_is_a_word_and_what_is_gone_is_none(open_index: Opener) -> None:
    index = filled(open_index())
    assert index.search("matriz").corrections == {"matriz": "matrix"}
    index.add([Document("Matriz is a town church in Portugal.", id="church")])
    assert index.search("matriz").ids[0] == "church"
    assert index.search("matriz").corrections == {}
    index.delete(["film"])
    assert index.search("matrxi").corrections == {}  # "matriz" is two slips away


def test_nobody_learns_a_word_of_what_the_filter_keeps_from_them(open_index: Opener) -> None:
    index = filled(open_index())
    index.add([Document("Bob drinks tea.", id="bob", metadata={"owner": "bob"})])
    assert index.search("rathoel", filter={"owner": "ada"}).corrections == {"rathoel": "rathole"}
    assert index.search("rathole", filter={"owner": "ada"}).corrections == {}
    assert index.search("rathoel", filter={"owner": "bob"}).corrections == {}


def test_it_can_be_switched_off(open_index: Opener) -> None:
    index = filled(open_index(config=SearchConfig(typos=False)))
    result = index.search("rathoel", explain=True)
    assert result.corrections == {}
    assert all(hit.explanation is not None and not hit.explanation.corrections for hit in result)


def test_the_model_gets_the_text_as_it_was_meant(open_index: Opener) -> None:
    model = Noting()
    index = filled(open_index(dense=model))
    index.search("warm up")
    model.queries.clear()
    index.search('where does Rathoel listen, "rathoel"?')
    assert model.queries == ['where does rathole listen, "rathoel"?']


def test_no_right_word_is_changed_and_most_slips_are_mended() -> None:
    chance = random.Random(7)
    right = [*chance.sample(sorted(known_words()), 250), *chance.sample(sorted(dictionary_words()), 250)]
    mistyped = {
        slip(word, chance): word for word in ("rathole", "interstellar", "simulated", "wormhole", "reykjavik") * 8
    }
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(list(NOTES.values()))
        for start in range(0, len(right), 25):
            assert index.search(" ".join(right[start : start + 25])).corrections == {}
        mended = [index.search(typed).corrections.get(typed) == word for typed, word in mistyped.items()]
    assert sum(mended) >= 0.95 * len(mended)
