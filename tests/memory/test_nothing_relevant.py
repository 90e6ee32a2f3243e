"""An honest "nothing relevant": short memories that say it in other words are found, off-topic queries find nothing."""

from __future__ import annotations

import pytest

from tests.memory.scenarios import Model, Store, texts
from twofold import Memory, MemoryConfig
from twofold.encoders.bm25 import BM25
from twofold.memory.recall import Alpha, adaptive, score_floor, share_corrected
from twofold.ranking.fusion import Auto, Circumstances

MEMORIES = [
    "The Matrix: a hacker learns that the world is a simulation.",
    "Interstellar: explorers travel through a wormhole in space.",
    "Whiplash: a young drummer and his merciless teacher.",
    "Amélie: a shy waitress in Paris helps the people around her.",
    "Ana drinks oat milk only; dairy makes her ill.",
    "Rathole tunnels listen on port 2333.",
    "The user prefers dark mode in every editor.",
    "The user's sister Maria lives in Lisbon.",
    "We decided to use Postgres instead of MongoDB for billing.",
    "Deploys happen on Tuesdays and never on Fridays.",
    "The user runs marathons; the next one is in Berlin in September.",
    "The staging server is called hedgehog.",
]
IN_OTHER_WORDS = {
    "science fiction films": "Interstellar",
    "which database did we choose?": "We decided",
    "what sport does the user do?": "The user runs",
    "who is the user's sibling?": "The user's sister",
    "colour theme preference": "The user prefers dark",
    "food allergies": "Ana",
    "romantic French movie": "Amélie",
    "test environment hostname": "The staging server",
}
OFF_TOPIC = [
    "zebra migration in Kenya", "recipe for lasagne", "quantum chromodynamics", "Bundesliga results",
    "weather tomorrow", "stock price of Apple", "history of the Roman empire", "guitar chords for beginners",
]  # fmt: skip
EVERYTHING = [*IN_OTHER_WORDS, *OFF_TOPIC, "hedgehog", "rathole port", "marathom", "Fridays"]


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    opened = store.open(config=MemoryConfig(touch=False))
    opened.remember_many(MEMORIES)
    return opened


@pytest.mark.parametrize("query", IN_OTHER_WORDS)
def test_what_is_said_in_other_words_is_found(memory: Memory, query: str) -> None:
    assert texts(memory.recall(query))[0].startswith(IN_OTHER_WORDS[query])


@pytest.mark.parametrize("query", OFF_TOPIC)
def test_off_topic_queries_find_nothing(memory: Memory, query: str) -> None:
    assert texts(memory.recall(query)) == []


@pytest.mark.parametrize(("query", "start"), [("hedgehog", "The staging"), ("marathom", "The user runs")])
def test_one_word_is_enough_also_mistyped(memory: Memory, query: str, start: str) -> None:
    assert texts(memory.recall(query))[0].startswith(start)


def test_explaining_changes_nothing_about_the_floor(memory: Memory) -> None:
    for query in EVERYTHING:
        plain, explained = memory.recall(query), memory.recall(query, explain=True)
        assert plain.ids == explained.ids, query


async def test_awaiting_changes_nothing_about_the_floor(memory: Memory) -> None:
    for query in EVERYTHING:
        assert (await memory.arecall(query)).ids == memory.recall(query).ids, query


def test_every_hit_is_above_the_floor(memory: Memory) -> None:
    for query in IN_OTHER_WORDS:
        result = memory.recall(query, explain=True)
        corrected = share_corrected(query, result.corrections, BM25().stem)
        least = score_floor(Alpha(0.25, ""), len(MEMORIES), corrected=corrected)
        assert least is not None
        assert least.cosine is not None
        for hit in result:
            assert hit.explanation is not None
            assert hit.score >= least.score or (hit.explanation.semantic_score or 0) >= least.cosine


def test_pages_join_above_the_floor(memory: Memory) -> None:
    whole = memory.recall("the user in Berlin, Lisbon or Paris", min_score=None)
    assert len(whole) > 1
    pages = [memory.recall("the user in Berlin, Lisbon or Paris", k=1, offset=n).ids for n in range(len(whole) + 1)]
    assert [identity for page in pages for identity in page] == whole.ids
    assert pages[-1] == []


def test_another_floor_goes_before_it(store: Store, memory: Memory) -> None:
    query = OFF_TOPIC[0]
    assert len(memory.recall(query, min_score=0.0)) == 10
    assert len(store.open(memory.user, config=MemoryConfig(min_score=None)).recall(query)) == 10
    assert len(memory.recall("food allergies", min_score=0.5)) == 0


def test_there_is_no_floor_where_none_was_measured(memory: Memory) -> None:
    assert len(memory.recall(OFF_TOPIC[0], alpha=0.5)) == 10
    assert len(memory.recall(OFF_TOPIC[0], fusion="rrf")) == 10
    other = Store(dense=Model())
    with other.open() as quick:
        quick.remember_many(MEMORIES)
        assert len(quick.recall(OFF_TOPIC[0])) == 10
    other.close()


@pytest.mark.parametrize(("memories", "score", "cosine"), [
    (1, 0.0, 0.30), (10, 0.055, 0.30), (100, 0.11, 0.30), (1000, 0.165, 0.36), (10_000, 0.22, 0.42),
])  # fmt: skip
def test_the_floor_grows_with_the_collection(memories: int, score: float, cosine: float) -> None:
    least = score_floor(adaptive(Auto(), memories, Circumstances()), memories, corrected=0.0)
    assert least is not None
    assert least.score == pytest.approx(score)
    assert least.cosine == pytest.approx(cosine)


@pytest.mark.parametrize(("corrected", "share"), [(0.0, 1.0), (0.25, 0.9 / 1.25**0.5), (1.0, 0.6 / 2**0.5)])
def test_the_more_was_corrected_the_lower_is_the_floor(corrected: float, share: float) -> None:
    least, usual = (score_floor(Alpha(0.25, ""), 100, corrected=each) for each in (corrected, 0.0))
    assert least is not None
    assert usual is not None
    assert least.score == pytest.approx(share * usual.score)
    assert least.cosine == usual.cosine


@pytest.mark.parametrize(("query", "meant", "share"), [
    ("marathom", {"marathom": "marathon"}, 1.0),
    ("when is the next marathom in Berlin?", {"marathom": "marathon"}, 1 / 3),
    ("when is the next marathon in Berlin?", {}, 0.0),
    ("the", {"the": "then"}, 1.0),
])  # fmt: skip
def test_the_share_of_corrected_words(query: str, meant: dict[str, str], share: float) -> None:
    assert share_corrected(query, meant, BM25().stem) == pytest.approx(share)


def test_one_word_taken_for_a_slip_lets_no_long_query_through(memory: Memory) -> None:
    result = memory.recall("how do hackers grow orchids and ferns on a spacer balcony")
    assert result.corrections == {"spacer": "space"}
    assert texts(result) == []


def test_in_a_language_that_is_strange_to_the_model_no_cosine_is_enough() -> None:
    least = score_floor(Alpha(0.1, ""), 100, unknown_language=1.0)
    assert least is not None
    assert least.cosine is None
    assert least.score == pytest.approx(0.11)


def test_what_many_memories_have_makes_none_of_them_relevant(store: Store) -> None:
    fields = MemoryConfig(fields={"type": "keyword"}, touch=False)
    rules = store.open("rules", config=fields)
    rules.remember_many([{"text": text, "type": "rule" if n % 2 else "note"} for n, text in enumerate(MEMORIES)])
    assert texts(rules.recall("rules of chess castling")) == []
    assert len(rules.recall("rules")) == len(MEMORIES) // 2


def test_no_floor_for_an_empty_collection_or_another_alpha() -> None:
    assert score_floor(Alpha(0.35, ""), 0, corrected=0.0) is None
    assert score_floor(Alpha(0.5, ""), 100, corrected=0.0) is None
    assert score_floor(Alpha(None, ""), 100, corrected=0.0) is None
