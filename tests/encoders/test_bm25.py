"""The BM25 encoder: Qdrant's tokens, weights by formula, and texts that tokenisers choke on."""

from __future__ import annotations

import math
import time
import unicodedata
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_edge import Bm25, Bm25Config

from twofold import BM25, ConfigError
from twofold.encoders.base import Sparse

ENGLISH = BM25()


def tokens(text: str, encoder: BM25 = ENGLISH) -> set[int]:
    """The words of a text, without its pairs."""
    vector = encoder.embed_query(text)
    return set(vector.indices[: vector.terms])


def pairs(text: str, encoder: BM25 = ENGLISH) -> set[int]:
    vector = encoder.embed_query(text)
    return set(vector.indices[vector.terms :])


PLAIN_WORDS = {
    "english": "running cats quickly tunnel memories the relational databases",
    "portuguese": "correndo gatos rapidamente tunel memorias os bancos relacionais de dados",
    "spanish": "corriendo gatos rapidamente tuneles memorias los bancos relacionales",
    "german": "laufende Katzen schnell Speicher die relationalen Datenbanken Fehlern",
    "norwegian": "katter hurtig minner det relasjonelle databaser feilene muligheten",
    "french": "courant chats rapidement tunnels souvenirs les bases relationnelles",
    "italian": "correndo gatti rapidamente memorie il relazionali",
    "dutch": "rennende katten snel herinneringen de relationele",
    "swedish": "springande katter snabbt minnen det relationella",
    "finnish": "juoksevat kissat nopeasti muistot",
    "russian": "бегущие кошки быстро туннели память и базы данных",
}


@pytest.mark.parametrize("language", PLAIN_WORDS)
def test_plain_words_get_the_ids_of_qdrants_own_bm25(language: str) -> None:
    ours, theirs = BM25(language), Bm25(Bm25Config(language=language))
    for word in PLAIN_WORDS[language].split():
        assert list(ours.embed_query(word).indices) == sorted(theirs.embed_query(word).indices), word
    text = PLAIN_WORDS[language]
    (document,) = ours.embed_documents([text])
    assert list(document.indices[: document.terms]) == sorted(theirs.embed_document(text).indices)


@pytest.mark.parametrize(
    ("language", "stopword"),
    {
        "english": "the",
        "portuguese": "os",
        "spanish": "los",
        "german": "die",
        "norwegian": "det",
        "french": "les",
    }.items(),
)
def test_stop_words_are_left_out(language: str, stopword: str) -> None:
    encoder = BM25(language)
    assert tokens(stopword, encoder) == tokens(stopword.upper(), encoder) == set()
    assert len(tokens(f"{stopword} zebra", encoder)) == 1


def test_stop_words_of_ones_own_replace_the_languages() -> None:
    encoder = BM25(stopwords=["Zebra", "naïve"])
    assert tokens("zebra ZEBRA naïve", encoder) == set()
    assert len(tokens("the zebra", encoder)) == 1
    assert len(tokens("the", BM25(stopwords=[]))) == 1


@pytest.mark.parametrize("repeated", [1, 2, 7])
def test_weights_by_hand(repeated: int) -> None:
    """Three words besides; the weight of a word is tf · (k1 + 1) / (tf + k1 · (length / avg_len) ** b) + delta."""
    encoder = BM25(k1=1.2, b=0.75, avg_len=5, delta=0.3)
    vector = encoder.embed_documents(["tunnel " * repeated + "port cache index"])[0]
    norm = 1.2 * ((repeated + 3) / 5) ** 0.75
    weights = Counter(round(value, 6) for value in vector.values[: vector.terms])
    once = 2.2 / (1 + norm)
    assert weights == Counter([round(repeated * 2.2 / (repeated + norm) + 0.3, 6)] + 3 * [round(once + 0.3, 6)])
    of_pairs = Counter(round(value, 6) for value in vector.values[vector.terms :])
    itself = [round((repeated - 1) * 2.2 / (repeated - 1 + norm), 6)] if repeated > 1 else []
    assert of_pairs == Counter(itself + 3 * [round(once, 6)])


def test_the_limits_of_b_and_k1() -> None:
    short, long = "tunnel", "tunnel " + " ".join(f"word{chr(97 + i)}" for i in range(20))
    (index,) = tokens("tunnel")

    def weight(encoder: BM25, text: str) -> float:
        vector = encoder.embed_documents([text])[0]
        return vector.values[list(vector.indices).index(index)]

    assert weight(BM25(b=0), short) == weight(BM25(b=0), long) == 1.5
    assert weight(BM25(b=0, delta=0), short) == 1.0
    assert weight(BM25(b=0.5), short) > weight(BM25(b=0.5), long)
    assert weight(BM25(b=1), short) > weight(BM25(b=1), long)
    assert weight(BM25(k1=0), "tunnel tunnel") == weight(BM25(k1=0), long) == 1.5
    assert weight(BM25(), "tunnel tunnel") > weight(BM25(), "tunnel")


def test_a_word_asked_for_twice_counts_more_but_not_double() -> None:
    vector = ENGLISH.embed_query("tunnel tunnel tunnel tunnel port")
    assert sorted(vector.values[: vector.terms]) == [1.0, 2.0]
    assert sorted(vector.values[vector.terms :]) == pytest.approx([0.25, 0.25 * math.sqrt(3)])


@pytest.mark.parametrize("count", [1, 2, 999, 1000, 20_000])
def test_repetitions_are_counted_exactly(count: int) -> None:
    """Counts are solved from the engine's 32-bit weights."""
    assert ENGLISH.embed_query("tunnel " * count).values[0] == math.sqrt(count)


@given(st.text(max_size=60) | st.lists(st.sampled_from(["a_b", "fooBar", "São", "x1", "😀", "\0", "-"])).map("".join))
def test_any_text_gives_a_vector_that_can_be_stored(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    for vector in (ENGLISH.embed_query(text), *ENGLISH.embed_documents([text])):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert all(0 <= index < 2**32 for index in vector.indices)
        assert len(vector.values) == len(vector.indices)
        assert all(math.isfinite(value) and value > 0 for value in vector.values)
    assert ENGLISH.embed_query(text) == BM25().embed_query(text)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "...", "the", "!?", "\0", "\u200b"], ids=repr)
def test_a_text_with_no_words_is_an_empty_vector(text: str) -> None:
    assert ENGLISH.embed_query(text) == Sparse([], [])
    assert ENGLISH.embed_documents([text]) == [Sparse([], [])]


def test_no_texts_no_vectors() -> None:
    assert ENGLISH.embed_documents([]) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("deploy 🚀 today", "deploy"),
        ("fire🔥fox", "fire"),
        ("שלום עולם", "שלום"),
        ("left \u202eright", "left"),
        ("東京 タワー", "東京"),
        ("nul\0ls and\0words", "words"),
        pytest.param("x" * 5000 + " end", "end", id="long word"),
        ("ﬁre", "fire"),
        ("STRASSE", "straße"),
    ],
    ids=ascii,
)
def test_words_are_found_in_odd_surroundings(text: str, query: str) -> None:
    document = set(ENGLISH.embed_documents([text])[0].indices)
    assert tokens(query)
    assert tokens(query) <= document


@pytest.mark.parametrize(("language", "text", "query"), [
    ("japanese", "日本語のテキストを検索する", "テキスト"),
    ("chinese", "我来到北京清华大学", "北京"),
])  # fmt: skip
def test_languages_without_spaces_are_cut_into_words(language: str, text: str, query: str) -> None:
    encoder = BM25(language)
    assert tokens(query, encoder)
    assert tokens(query, encoder) <= tokens(text, encoder)
    assert len(tokens(text, encoder)) > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "checkRateLimit of migration_032 failed with ERR_CONN_RESET. " * 17_000,
        "x" * 1_000_000,
        "aB" * 500_000,
        "a_" * 500_000,
        "a-" * 500_000 + "b",
        "日本語" * 333_333,
        "é" * 1_000_000,
        "ação " * 200_000,
        "." * 1_000_000,
    ],
    ids=["identifiers", "one word", "seams", "underscores", "dashes", "no spaces", "accents", "accented words", "dots"],
)
@pytest.mark.parametrize("language", ["english", "portuguese"])
def test_a_megabyte_takes_seconds_not_hours(text: str, language: str) -> None:
    start = time.process_time()
    BM25(language).embed_documents([text])
    assert time.process_time() - start < 10


# --- pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the rate limit of the gateway", "rate limits"),
        ("limits of rates", "limit the rate"),
        ("GitHub Actions", "github action"),
        ("voltou a São Paulo", "sao paulo"),
        ("ship it: rate, limit", "rate limit"),
    ],
)
def test_words_that_follow_each_other_are_a_pair_in_every_form(text: str, query: str) -> None:
    assert len(pairs(query)) == 1
    assert pairs(query) <= pairs(text)


def test_a_pair_has_an_order_and_no_gap() -> None:
    assert pairs("rate limit") != pairs("limit rate")
    assert not pairs("rate limit") & pairs("rate and a hard limit")
    assert pairs("zebra") == pairs("the zebra") == set()


def test_pairs_are_never_taken_for_words() -> None:
    vector = ENGLISH.embed_query("checkRateLimit of migration_032 failed with ERR_CONN_RESET in the gateway")
    assert max(vector.indices[: vector.terms]) < 2**31 <= min(vector.indices[vector.terms :])
    assert ENGLISH.matched_words("rate limit", ["limit rate"]) == [("rate", "limit")]


def test_pairs_can_be_left_out() -> None:
    assert pairs("rate limit", BM25(pairs=0)) == set()
    assert pairs("東京都庁 大阪府", BM25("japanese")) == set()
    assert list(BM25(pairs=2).embed_query("rate limit").values) == [1.0, 1.0, 2.0]


# --- what a word is -------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["São", "naïve", "Ångström", "Überprüfung", "ação", "Zürich", "école"])
@pytest.mark.parametrize("language", ["english", "portuguese", "german", "norwegian", "french"])
@pytest.mark.parametrize("fold", [True, False], ids=["folded", "as written"])
def test_composed_and_decomposed_are_the_same(word: str, language: str, fold: bool) -> None:
    encoder = BM25(language, fold_accents=fold)
    composed, decomposed = unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)
    assert composed != decomposed
    assert encoder.embed_query(composed) == encoder.embed_query(decomposed)
    assert encoder.embed_documents([composed]) == encoder.embed_documents([decomposed])


def test_case_changes_nothing() -> None:
    assert tokens("Tunnel") == tokens("TUNNEL") == tokens("tunnel")


def test_what_is_not_folded_stays_apart() -> None:
    encoder = BM25("norwegian", fold_accents=False)
    assert tokens("bønder", encoder) != tokens("bonder", encoder)
    assert tokens("bønder", BM25("norwegian")) == tokens("bonder", BM25("norwegian"))


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("The tunnels of the port", "a tunnel", ("tunnels",)),
        ("checkRateLimit", "the rate of it", ("checkRateLimit",)),
        ("nothing here", "something else", ()),
        ("", "something", ()),
        ("informação", "the informacao", ("informação",)),
        ("the", "the", ()),
    ],
    ids=repr,
)
def test_matched_words_are_shown_as_the_query_writes_them(query: str, text: str, expected: tuple[str, ...]) -> None:
    assert ENGLISH.matched_words(query, [text, ""]) == [expected, ()]


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"k1": -0.1}, {"k1": math.nan}, {"k1": math.inf}, {"k1": "1"}, {"k1": True}, {"k1": None},
        {"b": -0.1}, {"b": 1.1}, {"b": math.nan}, {"avg_len": 0}, {"avg_len": -5}, {"avg_len": math.inf},
        {"language": "klingon"}, {"language": ""}, {"language": None}, {"language": 5},
        {"stopwords": "the"}, {"stopwords": [3]},
    ],
    ids=repr,
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        BM25(**settings)


def test_settings_are_everything_that_decides_the_vectors() -> None:
    encoder = BM25(
        "Portuguese",
        k1=2,
        b=0.1,
        avg_len=7,
        delta=0.1,
        pairs=0.2,
        split_identifiers=False,
        fold_accents=False,
        stopwords=["b", "A", "a"],
    )
    settings = encoder.settings
    assert settings.pop("model") == "bm25"
    assert settings == {
        "language": "portuguese", "k1": 2.0, "b": 0.1, "avg_len": 7.0, "delta": 0.1, "pairs": 0.2,
        "split_identifiers": False, "fold_accents": False, "stopwords": ["a", "b"],
    }  # fmt: skip
    again = BM25(**settings)
    assert again.settings == encoder.settings
    assert again.embed_documents(["São fooBar a b c"]) == encoder.embed_documents(["São fooBar a b c"])


def test_settings_can_not_be_changed_from_outside() -> None:
    encoder = BM25()
    encoder.settings["k1"] = 99
    assert encoder.settings["k1"] == 1.2
