"""Tags and values that a query names, and what a mistyped word was meant to be."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.faces import MemoryFace, Opener
from twofold import Fusion, MemoryConfig
from twofold.encoders.bm25 import BM25
from twofold.ranking.vocabulary import (
    Lexicon,
    doubtful,
    fold,
    is_form_of_known,
    match_tags,
    most_likely,
    rarity,
    read_as,
    spellings_near,
    split,
)

STEM = BM25().stem


def named(query: str, *tags: str) -> list[str]:
    lexicon = Lexicon(STEM)
    lexicon.add("tags", tags)
    return [str(match.value) for each in match_tags(query, lexicon, 10) for match in each.matches]


@pytest.mark.parametrize(
    ("query", "tag"),
    [
        ("where is the rathole config?", "rathole"),
        ("RATHOLE", "rathole"),
        ("rathole", "Rathole"),
        ("all the tunnels", "tunnel"),
        ("the tunnel", "tunnels"),
        ("ci cd pipeline", "ci-cd"),
        ("the ci-cd pipeline", "ci cd"),
        ("ci_cd", "ci-cd"),
        ("project rathole codebase", "rathole-codebase"),
        ("machine learning notes", "machine learning"),
        ("machine-learning", "machine learning"),
        ("sao paulo", "São Paulo"),
        ("São Paulo", "sao-paulo"),
        ("state of the art", "state of the art"),
        ("c3po", "c3po"),
        ("C++ templates", "c++"),
        ("(c#)", "C#"),
        ("is it f#?", "f#"),
        ("issue#5 again", "issue"),
        ("rathole's config", "rathole"),
    ],
)
def test_a_tag_is_recognised(query: str, tag: str) -> None:
    assert named(query, tag) == [tag]


@pytest.mark.parametrize(
    ("query", "tag"),
    [
        ("the of and", "the"),
        ("to be or not to be", "to be"),
        ("machine", "machine learning"),
        ("learning machine", "machine learning"),
        ("machine slow learning", "machine learning"),
        ("tunnelling", "tun"),
        ("", "x"),
        ("?!", "x"),
        ("anything", "?!"),
        ("c++ build", "c#"),
        ("compile c#", "c++"),
        ("c++ build", "c"),
        ("c build", "c++"),
    ],
)
def test_and_not_where_it_is_not_named(query: str, tag: str) -> None:
    assert named(query, tag) == []


def test_several_tags_in_the_order_of_the_query() -> None:
    assert named("docker and rathole on infra", "infra", "rathole", "docker", "other") == ["docker", "rathole", "infra"]


def groups(query: str, *tags: str) -> list[set[str]]:
    lexicon = Lexicon(STEM)
    lexicon.add("tags", tags)
    return [{str(match.value) for match in each.matches} for each in match_tags(query, lexicon, 10)]


def test_all_spellings_of_a_tag_are_named_once() -> None:
    assert groups("rathole setup", "rathole", "Rathole", "ratholes", "food") == [{"rathole", "Rathole", "ratholes"}]
    assert groups("ci cd or ci-cd", "ci-cd", "CI CD") == [{"ci-cd", "CI CD"}]


def test_of_tags_within_a_longer_one_the_longer_is_meant() -> None:
    assert groups("machine learning", "machine", "learning", "machine-learning") == [{"machine-learning"}]
    assert groups("machine learning on my machine", "machine", "machine-learning") == [
        {"machine-learning"},
        {"machine"},
    ]
    assert groups("rathole tunnel server", "rathole tunnel", "tunnel server") == [{"rathole tunnel"}, {"tunnel server"}]


def test_a_longer_tag_does_not_hide_another_field() -> None:
    lexicon = Lexicon(STEM)
    lexicon.add("tags", ["oscars 2014", "2014"])
    lexicon.add("metadata.year", [2014])
    found = [{(match.field, match.value) for match in each.matches} for each in match_tags("oscars 2014", lexicon, 10)]
    assert found == [{("tags", "oscars 2014")}, {("metadata.year", 2014)}]


def test_how_much_a_tag_says_is_counted_over_its_spellings() -> None:
    lexicon = Lexicon(STEM)
    lexicon.add("tags", {"rathole": 6, "Rathole": 4})
    assert [each.weight for each in match_tags("rathole", lexicon, 100)] == pytest.approx([0.5])


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=40))
def test_whatever_is_written_is_matched_or_not(tags: list[str], query: str) -> None:
    found = named(query, *tags)
    assert set(found) <= set(tags)
    assert len(found) == len(set(found))


@given(st.text(max_size=20))
def test_folding_leaves_no_capitals_and_no_accents(text: str) -> None:
    assert not any(unicodedata.combining(character) for character in fold(text))
    assert fold(text) == fold(unicodedata.normalize("NFC", text)) == fold(unicodedata.normalize("NFD", text))


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_what_few_have_says_more(count: int, more: int, memories: int) -> None:
    assert 0 <= rarity(count + more, memories) <= rarity(count, memories) <= 1


def test_a_tag_of_all_memories_says_nothing() -> None:
    assert [rarity(count, 100) for count in (1, 10, 100)] == pytest.approx([1, 0.5, 0])


def test_a_type_counts_by_how_much_of_the_query_it_is() -> None:
    lexicon = Lexicon(STEM)
    lexicon.add("type", {"film": 1})
    lexicon.add("tags", {"heist": 1})
    weights = {each.matches[0].value: each.weight for each in match_tags("a film with a heist in it", lexicon, 10)}
    assert weights == pytest.approx({"film": 0.5, "heist": 1.0})
    assert match_tags("films", lexicon, 10)[0].weight == 1


def meant(query: str, *texts: str, known: Iterable[str] = ()) -> dict[str, str]:
    """As a search does it, where all texts can be looked at."""
    known = frozenset(known)
    stems = {STEM(word) for text in texts for word in split(text)}
    absent = [
        w for w in doubtful(query, known) if STEM(w) not in {None, *stems} and not is_form_of_known(w, known, STEM)
    ]
    found = {word: most_likely(spellings_near(word), texts, STEM) for word in absent}
    return {word: right for word, right in found.items() if right is not None}


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        ("matriz", "matrix"),
        ("kuberntes", "kubernetes"),
        ("kuberentes", "kubernetes"),
        ("raathole", "rathole"),
        ("arthole", "rathole"),
        ("athole", "rathole"),
        ("configuraton", "configuration"),
        ("intersteler", "interstellar"),
        ("checkratelimt", "checkRateLimit"),
        ("marathom", "marathons"),
        ("e4201", "e4021"),
        ("e4o21", "e4021"),
        ("чайнкк", "чайник"),
    ],
)
def test_a_slip_is_forgiven(typed: str, known: str) -> None:
    assert meant(f"the {typed} film", known, "other", "words") == {typed: known}


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("matrix", ["matrix", "matriz"]),
        ("port", ["pork"]),
        ("cats", ["cast"]),
        ("err2333", ["err2334"]),
        ("topic45a", ["topic45b"]),
        ("23334", ["2333"]),
        ("1990s", ["1990"]),
        ("e4003", ["e4030 e40031"]),
        ("tunnels", ["tunnel", "tunnelt"]),
        ("listing", ["list", "lifting"]),
        ("about", ["abort"]),
        ("zebra", ["matrix"]),
        ("matrxxx", ["matrix"]),
        ("matrix" * 9, ["matrix" * 8]),
        ('the "matriz" film', ["matrix"]),
        ("the `matriz` film", ["matrix"]),
        ("daily", ["dairy"]),
        ("gardeners", ["gardenerz"]),
        ("proline", ["prominent"]),
        ("", ["matrix"]),
    ],
)
def test_what_needs_no_correction_gets_none(query: str, texts: list[str]) -> None:
    assert meant(query, *texts, known=["daily", "gardener"]) == {}


def test_of_equally_near_words_the_commoner_is_meant() -> None:
    assert meant("matriz", "matrix", "matris", "matris") == {"matriz": "matris"}


def test_what_is_quoted_stays_as_it_is() -> None:
    corrections = {"matriz": "matrix"}
    assert read_as('Matriz, "matriz" and «matriz» matriz_1', corrections) == 'matrix, "matriz" and «matriz» matrix_1'


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=9), max_size=20), st.text(max_size=30))
def test_what_is_known_is_never_corrected(known: list[str], query: str) -> None:
    found = meant(query, *known)
    assert not set(found) & set(known)
    assert set(found.values()) <= set(known)
    assert meant(query, "abcde", known=split(query)) == {}


# --- the same through recall ---------------------------------------------------------------------


@pytest.fixture
def films() -> list[str]:
    return ["The Matrix is a film about a simulated world", "Heat is a film about a robbery", "kubernetes runs pods"]


def test_recall_forgives_a_slip(open_memory: Opener, films: list[str]) -> None:
    memory = open_memory()
    ids = memory.remember_many(films)
    result = memory.recall("matriz", alpha=0.0, explain=True)
    assert result.ids == [ids[0]]
    assert result.corrections == {"matriz": "matrix"}
    assert result[0].explanation.matched_words == ("matrix",)
    assert memory.recall("kuberntes", alpha=0.0).ids == [ids[2]]


def test_typos_can_be_switched_off(open_memory: Opener, films: list[str]) -> None:
    memory = open_memory(config=MemoryConfig(typos=False))
    memory.remember_many(films)
    result = memory.recall("matriz", alpha=0.0)
    assert (result.ids, result.corrections) == ([], {})


def test_exact_matches_are_ranked_the_same_with_typos_on_and_off(open_memory: Opener, films: list[str]) -> None:
    on, off = open_memory(), open_memory(config=MemoryConfig(typos=False))
    for memory in (on, off):
        memory.remember_many([*films, "a matriz is no film", "pods"])
    for query in ("matrix film", "matriz", "kubernetes pods", "about a world"):
        one, other = on.recall(query), off.recall(query)
        assert one.corrections == {}
        assert {h.text: h.score for h in one} == pytest.approx({h.text: h.score for h in other}, abs=1e-5)


def test_a_slip_is_recalled_like_the_right_word(open_here: Opener) -> None:
    memory = open_here()
    memory.remember_many(["the matrix and more", "the film of the year", "unrelated"])
    right, slip = memory.recall("matrix film"), memory.recall("matriz film")
    assert {hit.id: hit.score for hit in slip} == pytest.approx({hit.id: hit.score for hit in right})


def test_log_lines_are_not_looked_for_by_words_of_memories(open_here: Opener) -> None:
    memory = open_here()
    memory.remember("the matrix")
    memory.log("the matrix was shown")
    line = memory.log("matriz repaired")
    assert [item.id for item in memory.logs("matriz")] == [line]


def test_no_tags_switches_the_matching_off(open_memory: Opener) -> None:
    memory = open_memory()
    tagged = memory.remember("something about ports", tags=["rathole"])
    memory.remember("rathole is a tool")
    assert memory.recall("rathole").tags == ("rathole",)
    off = memory.recall("rathole", tags=[], explain=True)
    assert off.tags == ()
    assert tagged in off.ids, "an empty list filters nothing"
    assert all(hit.explanation.tag_boost == 0 for hit in off)
    boost = {hit.id: hit.explanation.tag_boost for hit in memory.recall("rathole", explain=True)}
    assert boost[tagged] > 0


def test_explicit_tags_any_and_all(open_memory: Opener) -> None:
    memory = open_memory()
    both = memory.remember("tunnel one", tags=["infra", "São Paulo"])
    one = memory.remember("tunnel two", tags=["infra"])
    memory.remember("tunnel three", tags=["infrastructure"])
    assert set(memory.recall("tunnel", tags=["infra", "São Paulo"]).ids) == {both, one}
    assert memory.recall("tunnel", tags=["infra", "São Paulo"], match="all").ids == [both]
    assert memory.recall("tunnel", tags="São Paulo").ids == [both]
    assert memory.recall("tunnel", tags=["nothing"]).ids == []


def test_only_a_tag_brings_a_memory_that_the_legs_do_not(open_here: Opener) -> None:
    memory = open_here()
    tagged = memory.remember("completely different words", tags=["ci-cd"])
    memory.remember_many([f"filler text number {n} pipeline" for n in range(30)])
    result = memory.recall("ci cd", 3, depth=5, explain=True)
    assert result[0].id == tagged
    assert result[0].explanation.matched_tags == ("ci-cd",)


def test_declared_fields_are_named_like_tags(open_memory: Opener) -> None:
    config = MemoryConfig(fields={"type": "keyword", "year": "integer", "film.director": "keyword", "cast": "keyword"})
    memory = open_memory(config=config, collection=None)
    memory.recall("warm up, so that what follows is learned and not read")
    wanted = memory.remember(
        "a tense story",
        type="film",
        metadata={"year": 2014, "film": {"director": "Nolan"}, "cast": ["Hathaway", "Foy"]},
    )
    memory.remember("films are stories of a kind", type="note", metadata={"year": 2013})
    for again in (memory, open_memory(memory.memory.user, config=config, collection=None)):
        result = again.recall("films of 2014 by nolan with hathaway", explain=True)
        assert set(result.tags) == {"film", "2014", "Nolan", "Hathaway"}
        assert result[0].id == wanted
        assert set(result[0].explanation.matched_tags) == {"film", "2014", "Nolan", "Hathaway"}


def test_what_is_learned_on_the_way_is_what_reading_anew_tells(open_memory: Opener) -> None:
    memory = open_memory()
    memory.recall("warm up")
    for number in range(6):
        memory.remember(f"tunnel number {number}", tags=["infra"] if number % 2 else ["home"])
    for _ in range(3):
        memory.remember("tunnel number 1", tags=["infra"])
    memory.remember_turns(["a tunnel?"], session="s", tags=["home"])
    asked = {"touch": False, "min_score": 0.0}
    kept = memory.recall("infra home tunnel", 10, **asked)
    fresh = open_memory(memory.memory.user).recall("infra home tunnel", 10, **asked)
    assert [(h.id, h.score) for h in kept] == [(h.id, pytest.approx(h.score, rel=1e-4)) for h in fresh]


def boosts(memory: MemoryFace, query: str) -> dict[str, float]:
    found = memory.recall(query, explain=True, min_score=0.0)
    return {hit.text: hit.explanation.tag_boost for hit in found if hit.explanation.tag_boost}


@pytest.mark.parametrize("fusion", ["auto", Fusion.auto(0.3), "weighted"], ids=["auto", "native", "weighted"])
def test_spellings_of_a_tag_do_not_take_from_each_other(open_memory: Opener, fusion: Any) -> None:
    texts = ["heartbeat every 30 s", "port 2333", "tokens in toml", "bread", "milk", "rye"]
    config = MemoryConfig(fusion=fusion)
    one, many = open_memory(config=config), open_memory(config=config)
    spelled: list[list[str]] = [["rathole"], ["Rathole"], ["ratholes"], ["food"], [], []]
    for memory, tags in ((one, [["rathole"]] * 3 + [["food"], [], []]), (many, spelled)):
        memory.remember_many([{"text": text, "tags": tag} for text, tag in zip(texts, tags, strict=True)])
    assert set(boosts(one, "rathole setup")) == set(texts[:3])
    assert set(many.recall("rathole setup").tags) == {"rathole", "Rathole", "ratholes"}
    assert boosts(many, "rathole setup") == pytest.approx(boosts(one, "rathole setup"), rel=1e-4)


def test_a_year_written_in_two_ways_is_one_year(open_memory: Opener) -> None:
    config = MemoryConfig(fields={"type": "keyword", "year": "keyword"})
    memory = open_memory(config=config, collection=None)
    memory.recall("warm up")
    memory.remember("Interstellar", type="film", metadata={"year": 2014})
    memory.remember("Whiplash", type="film", metadata={"year": "2014"})
    memory.remember_many(["Heat", "bread"])
    result = memory.recall("films of 2014", explain=True, min_score=0.0)
    assert result.tags == ("film", "2014")
    boost = {hit.text: hit.explanation.tag_boost for hit in result}
    assert boost["Interstellar"] == pytest.approx(boost["Whiplash"], rel=1e-3)


def test_given_tags_are_found_however_they_are_spelled(open_memory: Opener) -> None:
    memory = open_memory()
    ids = [
        memory.remember(f"tunnel {n}", tags=[tag]) for n, tag in enumerate(["Rathole", "rathole", "São Paulo", "c++"])
    ]
    memory.remember("tunnel of another kind", tags=["ratholes"])
    memory.remember("tunnel in c", tags=["C#", "c"])
    assert set(memory.recall("tunnel", tags=["rathole"]).ids) == set(ids[:2])
    assert set(memory.recall("tunnel", tags="RATHOLE").ids) == set(ids[:2])
    assert memory.recall("tunnel", tags=["sao-paulo"], match="all").ids == [ids[2]]
    assert memory.recall("tunnel", tags=["C++"]).ids == [ids[3]]
    assert {item.id for item in memory.list(tags=["rathole"])} == set(ids[:2])


def test_a_mistyped_tag_is_named_all_the_same(open_memory: Opener) -> None:
    memory = open_memory()
    tagged = memory.remember("heartbeat every 30 s", tags=["machine-learning"])
    memory.remember_many(["bread", "milk", "rye"])
    result = memory.recall("mahcine learning", explain=True)
    assert result.corrections == {"mahcine": "machine"}
    assert result.tags == ("machine-learning",)
    assert result[0].id == tagged
    assert memory.recall("mahcine learning", tags=[]).tags == ()


def test_a_word_far_down_in_a_long_text_is_no_slip(open_memory: Opener) -> None:
    memory = open_memory()
    long = " ".join(f"wordnumber{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300))
    found = memory.remember(f"{long} kubernetes")
    other = memory.remember("kubernetas is how some write it")
    result = memory.recall("kubernetes", alpha=0.0)
    assert result.corrections == {}
    assert result.ids == [found]
    assert memory.recall("kubernetos", alpha=0.0).ids == [other], "one that is nowhere is one"
    assert memory.for_user(f"{memory.memory.user} too").recall("kubernetes").corrections == {}
