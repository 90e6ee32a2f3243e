"""An honest "nothing relevant": short memories that say it in other words are found, off-topic queries find nothing."""

from __future__ import annotations

import pytest

from tests.memory.scenarios import Store, texts
from twofold import Memory, MemoryConfig
from twofold.encoders.bm25 import BM25
from twofold.engine.layout import Stored
from twofold.memory.recall import _every_word

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
    "how do volcanoes form?", "symptoms of the flu", "who painted the Mona Lisa?", "mortgage interest rates",
    "how to knit a scarf", "capital of Mongolia", "photosynthesis in plants", "best chess openings",
    "when did dinosaurs die out?", "used car prices", "tax return deadline", "how tall is Mount Everest?",
]  # fmt: skip
MAX_ANSWERED = 5
"""One in seven: by chance one or the other is as near as an answer."""
EVERYTHING = [*IN_OTHER_WORDS, *OFF_TOPIC, "hedgehog", "rathole port", "marathom", "Fridays"]


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    opened = store.open(config=MemoryConfig(touch=False))
    opened.remember_many(MEMORIES)
    return opened


@pytest.mark.parametrize("query", IN_OTHER_WORDS)
def test_what_is_said_in_other_words_is_found(memory: Memory, query: str) -> None:
    assert texts(memory.recall(query))[0].startswith(IN_OTHER_WORDS[query])


def test_off_topic_queries_find_nothing(memory: Memory) -> None:
    answered = [query for query in OFF_TOPIC if len(memory.recall(query))]
    assert len(answered) <= MAX_ANSWERED, answered


@pytest.mark.parametrize(("query", "start"), [("hedgehog", "The staging"), ("marathom", "The user runs")])
def test_one_word_is_enough_also_mistyped(memory: Memory, query: str, start: str) -> None:
    assert texts(memory.recall(query))[0].startswith(start)


def test_explaining_changes_nothing_about_the_gate(memory: Memory) -> None:
    for query in EVERYTHING:
        plain, explained = memory.recall(query), memory.recall(query, explain=True)
        assert plain.ids == explained.ids, query


async def test_awaiting_changes_nothing_about_the_gate(memory: Memory) -> None:
    for query in EVERYTHING:
        assert (await memory.arecall(query)).ids == memory.recall(query).ids, query


def test_where_there_is_an_answer_the_ranking_stays_whole(memory: Memory) -> None:
    for query in IN_OTHER_WORDS:
        result, whole = memory.recall(query, k=20), memory.recall(query, k=20, min_score=0.0)
        assert result.ids == whole.ids, query
        assert len(result) == len(MEMORIES)
        assert result[0].relevance >= 0.5 > result[-1].relevance


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize(
    "query", ["the user in Berlin, Lisbon or Paris", "which database did we choose?", "recipe for lasagne"]
)
def test_pages_join_through_the_gate(memory: Memory, query: str, size: int) -> None:
    whole = memory.recall(query, k=20)
    starts = range(0, len(MEMORIES) + size, size)
    pages = [memory.recall(query, k=size, offset=start).ids for start in starts]
    assert [identity for page in pages for identity in page] == whole.ids
    assert len(whole) == (0 if query in OFF_TOPIC else len(MEMORIES))


def test_the_gate_looks_at_ten_however_few_are_shown(store: Store) -> None:
    """Old memories that lose nearly all of their score stand last, and are answers still."""
    config = MemoryConfig(recency="full", touch=False, near_duplicate=None)
    with store.open(config=config) as memory:
        memory.remember("The staging server is called hedgehog.", created="2001-01-01")
        memory.remember_many([text for text in MEMORIES if "hedgehog" not in text][:8])
        query = "what is the name of the test server?"
        ids = memory.recall(query, k=9).ids
        assert len(ids) == 9
        assert [memory.recall(query, k=1, offset=start).ids for start in range(9)] == [[each] for each in ids]


def test_a_relevance_that_is_asked_for_goes_before_the_gate(store: Store, memory: Memory) -> None:
    query = OFF_TOPIC[0]
    assert len(memory.recall(query, min_score=0.0)) == 10
    assert len(store.open(memory.user, config=MemoryConfig(min_score=None, touch=False)).recall(query)) == 10
    some = memory.recall("food allergies", min_score=0.5)
    assert 0 < len(some) < 10
    assert all(hit.relevance >= 0.5 for hit in some)
    assert len(memory.recall("food allergies", min_score=0.99)) == 0


@pytest.mark.parametrize("alpha", [0.4, 0.6, 0.8, 1.0])
def test_the_gate_goes_with_any_alpha(memory: Memory, alpha: float) -> None:
    assert sum(len(memory.recall(query, alpha=alpha)) > 0 for query in OFF_TOPIC) <= MAX_ANSWERED
    assert sum(len(memory.recall(query, alpha=alpha)) > 0 for query in IN_OTHER_WORDS) >= len(IN_OTHER_WORDS) - 1


def test_there_is_no_gate_where_nothing_is_measured(memory: Memory) -> None:
    for fusion in ("rrf", "dbsf", "weighted", "average"):
        assert len(memory.recall(OFF_TOPIC[0], fusion=fusion)) == 10


def test_one_word_taken_for_a_slip_lets_no_long_query_through(memory: Memory) -> None:
    result = memory.recall("how do gardeners grow orchids and ferns on a spcae balcony")
    assert result.corrections == {"spcae": "space"}
    assert texts(result) == []


def test_what_many_memories_have_makes_none_of_them_relevant(store: Store) -> None:
    fields = MemoryConfig(fields={"type": "keyword"}, touch=False)
    rules = store.open("rules", config=fields)
    rules.remember_many([{"text": text, "type": "rule" if n % 2 else "note"} for n, text in enumerate(MEMORIES)])
    assert texts(rules.recall("rules of chess castling")) == []
    asked = rules.recall("rules")
    assert {hit.memory.type for hit in asked[: len(MEMORIES) // 2]} == {"rule"}


# --- a query that is nothing but words, and a memory that has them all ---------------------------


@pytest.fixture(scope="module")
def errands(quick: Store) -> Memory:
    """With a model that knows nothing, so that words decide."""
    memory = quick.open(config=MemoryConfig(touch=False))
    shops = ("bakery", "florist", "pharmacy", "tailor", "cobbler", "chandler", "ironmonger", "stationer")
    memory.remember_many([f"Errand {shop}: pick up what was ordered there." for shop in shops])
    memory.remember("Mercers sell cloth.", category="drapery", tags=["haberdasher"])
    return memory


@pytest.mark.parametrize("query", ["florist", "florsit", "Errand: florist", "florist errands", "ordered florist"])
def test_a_memory_with_every_word_is_an_answer_whatever_its_score(errands: Memory, query: str) -> None:
    assert texts(errands.recall(query))[0].startswith("Errand florist")


@pytest.mark.parametrize("query", ["haberdasher", "drapery", "drapery cloth"])
def test_words_of_tags_and_category_are_its_words_too(errands: Memory, query: str) -> None:
    assert texts(errands.recall(query))[0] == "Mercers sell cloth."


@pytest.mark.parametrize("query", ["florist mortgage bankruptcy litigation", "what was there?"])
def test_some_of_the_words_or_stop_words_alone_are_not_enough(errands: Memory, query: str) -> None:
    has_all = _every_word(query, {}, BM25().stem)
    items = errands.list()
    assert len(items) == 9
    assert not any(has_all(Stored(item.id, item.id, item.text, {})) for item in items)


# --- the first memories -------------------------------------------------------------------------

OWN = {
    "Ana drinks oat milk only; dairy makes her ill.": "food allergies",
    "The user's sister Maria lives in Lisbon.": "who is the user's sibling?",
    "The staging server is called hedgehog.": "test environment hostname",
    "We decided to use Postgres instead of MongoDB for billing.": "which database did we choose?",
    "The user runs marathons; the next one is in Berlin in September.": "what sport does the user do?",
}


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_first_memories_rank_by_meaning(store: Store, size: int) -> None:
    with store.open(config=MemoryConfig(touch=False)) as memory:
        stored = list(OWN)[:size]
        memory.remember_many(stored)
        for text in stored:
            result = memory.recall(OWN[text], explain=True, min_score=0.0)
            assert texts(result)[0] == text
            nearness = [hit.explanation.semantic_score or 0.0 for hit in result if hit.explanation]
            wordless = [hit.explanation.lexical_rank is None for hit in result if hit.explanation]
            if all(wordless):
                assert nearness == sorted(nearness, reverse=True), "never by id where meaning differs"


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_a_foreign_question_gets_nothing_where_its_own_are_answered(store: Store, size: int) -> None:
    with store.open(config=MemoryConfig(touch=False)) as memory:
        stored = [*OWN, *(text for text in MEMORIES if text not in OWN)][:size]
        memory.remember_many(stored)
        for text in stored[: len(OWN)]:
            assert texts(memory.recall(OWN[text]))[:1] == [text]
        answered = [query for query in OFF_TOPIC if len(memory.recall(query))]
        assert len(answered) <= MAX_ANSWERED, answered


def test_each_user_has_a_gate_of_their_own(store: Store) -> None:
    """What many know about databases is nothing to somebody who never spoke of one."""
    with store.open("dba") as one, store.open("cook") as other:
        one.remember_many(
            [f"Table {name} lives in Postgres, shard {n}." for n, name in enumerate(["a", "b", "c", "d"])]
        )
        other.remember_many(["Lasagne needs bechamel.", "Rye bread rises overnight.", "The oven runs hot."])
        assert len(one.recall("which database holds table b?"))
        assert not len(other.recall("which database holds table b?"))
        assert len(other.recall("how do I bake bread?"))
        assert not len(one.recall("how do I bake bread?"))
