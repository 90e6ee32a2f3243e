"""Films, notes and links that a person has saved, in English and in Portuguese: what ADR-018 asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from qdrant_client import models

from tests.memory.scenarios import Model, Store, why
from twofold import Fusion, Memory, MemoryConfig, MemoryResult

FILMS = [
    ("The Matrix: a hacker learns that the world is a simulation run by machines.", 1999),
    ("Interstellar: explorers travel through a wormhole in space to save mankind.", 2014),
    ("The Grand Budapest Hotel: a concierge and his lobby boy.", 2014),
    ("Whiplash: a young drummer and his merciless teacher.", 2014),
    ("The Martian: an astronaut stranded on Mars grows potatoes.", 2015),
    ("Amélie: a shy waitress in Paris helps the people around her.", 2001),
]
NOTES = [
    "The carriage was pulled by two horses.",
    "My car needs new tyres before winter.",
    "Call the dentist about the appointment on Monday.",
]
LINKS = ["https://qdrant.tech/documentation explains how hybrid queries work."]
FIELDS: dict[str, Literal["keyword", "integer"]] = {"type": "keyword", "year": "integer"}


def saved(memory: Memory) -> Memory:
    """A person's saved items."""
    memory.remember_many([{"text": text, "type": "film", "metadata": {"year": year}} for text, year in FILMS])
    memory.remember_many([{"text": text, "type": "note"} for text in NOTES])
    memory.remember_many([{"text": text, "type": "link"} for text in LINKS])
    return memory


@pytest.fixture(scope="module")
def memory(store: Store) -> Memory:
    return saved(store.open(config=MemoryConfig(fields=FIELDS, touch=False)))


def titles(result: MemoryResult) -> list[str]:
    return [hit.text.split(":")[0] for hit in result]


# --- meaning, words, and both ------------------------------------------------------------------


def test_meaning_finds_what_has_no_word_in_common(memory: Memory) -> None:
    assert titles(memory.recall("science fiction movies"))[0] == "Interstellar"
    assert "The Martian" in titles(memory.recall("an outer space adventure"))


def test_a_title_is_found_by_its_word(memory: Memory) -> None:
    assert titles(memory.recall("interstellar"))[0] == "Interstellar"
    assert titles(memory.recall("matrix"))[0] == "The Matrix"


def test_car_is_not_carriage(memory: Memory) -> None:
    assert memory.recall("car")[0].text == "My car needs new tyres before winter."


# --- the three ways to merge -------------------------------------------------------------------


def test_weighted_merge_is_seven_parts_meaning_and_three_parts_words(memory: Memory) -> None:
    result = memory.recall("potatoes on Mars", fusion="weighted", alpha=0.7, signals=False, explain=True)
    best_words = max(each.lexical_score or 0.0 for each in why(result))
    for hit, each in zip(result, why(result), strict=True):
        expected = 0.7 * max(0.0, each.semantic_score or 0.0) + 0.3 * (each.lexical_score or 0.0) / best_words
        assert hit.score == pytest.approx(expected, rel=1e-4)
    assert titles(result)[0] == "The Martian"


def test_weighted_with_weights_of_its_own_keeps_them(memory: Memory) -> None:
    result = memory.recall("Paris", fusion=Fusion.weighted(0.7001), signals=False, explain=True)
    first = why(result)[0]
    assert first.semantic_part == pytest.approx(0.7001 * (first.semantic_score or 0), rel=1e-4)


def test_reciprocal_rank_fusion_by_name(memory: Memory) -> None:
    result = memory.recall("a drummer in space", fusion="rrf", signals=False, explain=True)
    for each in why(result):
        ranks = [rank for rank in (each.semantic_rank, each.lexical_rank) if rank is not None]
        assert each.final_score == pytest.approx(sum(1 / (60 + rank) for rank in ranks), rel=1e-5)


def test_mean_of_normalised_scores_by_name(memory: Memory) -> None:
    result = memory.recall("a drummer in space", k=100, fusion="average", signals=False, explain=True)
    found = why(result)
    for leg in ("semantic", "lexical"):
        raw = {each: getattr(each, f"{leg}_score") for each in found if getattr(each, f"{leg}_score") is not None}
        low, high = min(raw.values()), max(raw.values())
        for each, score in raw.items():
            expected = 0.5 * ((score - low) / (high - low) if high > low else 1.0)
            assert getattr(each, f"{leg}_part") == pytest.approx(expected, abs=1e-4)


# --- settings ----------------------------------------------------------------------------------


def test_minimum_score(store: Store) -> None:
    config = MemoryConfig(fusion=Fusion.weighted(0.7), alpha=0.7, min_score=0.3)
    with saved(store.open(config=config)) as memory:
        result = memory.recall("a hacker in a simulated world")
        assert titles(result)[0] == "The Matrix"
        assert all(hit.score >= 0.3 for hit in result)
        everything = memory.recall("a hacker in a simulated world", min_score=0.0)
        assert len(everything) > len(result)


def test_ten_results_at_most_unless_told_otherwise(quick: Store) -> None:
    with quick.open() as memory:
        memory.remember_many([f"A film about topic number {number}." for number in range(30)])
        assert len(memory.recall("film about a topic", min_score=0.0)) == 10
        assert len(memory.recall("film about a topic", k=25, min_score=0.0)) == 25


@pytest.mark.parametrize(("kind", "query", "alpha"), [
    ("film", "the drummer and his teacher", 0.8), ("note", "new tyres for the car", 0.6),
    ("link", "documentation of hybrid queries", 0.5),
])  # fmt: skip
def test_weights_by_content_type(store: Store, kind: str, query: str, alpha: float) -> None:
    config = MemoryConfig(type_alpha={"film": 0.8, "note": 0.6, "link": 0.5})
    with saved(store.open(config=config)) as memory:
        typed = next(hit for hit in memory.recall(query, explain=True) if hit.memory.type == kind).explanation
        even = next(hit for hit in memory.recall(query, explain=True, alpha=0.5) if hit.memory.type == kind).explanation
        assert typed is not None
        assert even is not None
        assert typed.semantic_part == pytest.approx(even.semantic_part / 0.5 * alpha, rel=1e-3)
        assert typed.lexical_part == pytest.approx(even.lexical_part / 0.5 * (1 - alpha), rel=1e-3)


def test_a_word_finds_its_memory_however_little_words_count_for_its_type(store: Store) -> None:
    with saved(store.open(config=MemoryConfig(type_alpha={"film": 0.6, "note": 0.8}))) as own:
        assert own.recall("car")[0].text == "My car needs new tyres before winter."
        assert titles(own.recall("matriz"))[0] == "The Matrix"


# --- whose, and which --------------------------------------------------------------------------


def test_each_user_has_items_of_their_own(memory: Memory) -> None:
    other = memory.for_user("bob")
    assert len(other.recall("Interstellar")) == 0
    other.remember("Interstellar bored me.", type="film")
    try:
        assert titles(other.recall("Interstellar")) == ["Interstellar bored me."]
        assert "Interstellar bored me." not in titles(memory.recall("Interstellar bored me"))
    finally:
        other.forget(everything=True)


def test_only_some_types(memory: Memory) -> None:
    found = memory.recall("space, horses and queries", types=["note", "link"], min_score=0.0)
    assert {hit.memory.type for hit in found} == {"note", "link"}


def test_films_of_2014(memory: Memory) -> None:
    result = memory.recall("films of 2014")
    assert set(titles(result)[:3]) == {"Interstellar", "The Grand Budapest Hotel", "Whiplash"}
    assert result.tags == ("film", "2014")


def test_films_of_2014_among_many_other_memories(quick: Store) -> None:
    with quick.open(config=MemoryConfig(fields=FIELDS)) as memory:
        memory.remember_many(
            [f"List {number} of films, of plays and of the books of a friend." for number in range(300)]
        )
        films = memory.remember_many([
            {"text": text, "type": "film", "metadata": {"year": year}} for text, year in FILMS
        ])  # fmt: skip
        assert set(memory.recall("films of 2014", k=3).ids) == set(films[1:4])


def test_filmes_de_2014_in_portuguese(store: Store) -> None:
    config = MemoryConfig(fields=FIELDS)
    with store.open(collection="memórias", language="portuguese", config=config) as memory:
        memory.remember("Interestelar: exploradores atravessam um buraco de minhoca.", type="filme",
                        metadata={"year": 2014})  # fmt: skip
        memory.remember("Cidade de Deus: dois rapazes crescem na favela.", type="filme", metadata={"year": 2002})
        memory.remember("O Grande Hotel Budapeste: um porteiro e o seu aprendiz.", type="filme",
                        metadata={"year": 2014})  # fmt: skip
        memory.remember("Comprar pão e leite na sexta-feira.", metadata={"year": 2014})
        result = memory.recall("filmes de 2014", k=2)
        assert set(titles(result)) == {"Interestelar", "O Grande Hotel Budapeste"}


def test_matriz_finds_matrix(memory: Memory) -> None:
    result = memory.recall("matriz", explain=True)
    assert titles(result)[0] == "The Matrix"
    assert result.corrections == {"matriz": "matrix"}
    assert why(result)[0].matched_words == ("matrix",)


@pytest.mark.parametrize(("typo", "title"), [
    ("intersteler", "Interstellar"), ("whiplahs", "Whiplash"), ("the martain on mars", "The Martian"),
    ("amelie", "Amélie"), ("budapets hotel", "The Grand Budapest Hotel"),
])  # fmt: skip
def test_typing_errors_are_forgiven(memory: Memory, typo: str, title: str) -> None:
    assert titles(memory.recall(typo))[0] == title


def test_another_word_is_no_typing_error(memory: Memory) -> None:
    for word in ("heart", "scar", "drummer", "mattress", "hotels"):
        assert memory.recall(word).corrections == {}, word


# --- what is used often, what was logged, what was learned -------------------------------------


def test_popular_items_have_an_advantage(store: Store) -> None:
    with store.open(config=MemoryConfig(popularity=1.0)) as memory:
        memory.remember_many(["Luigi makes good pizza near the office.", "Mario makes good pizza near the office."])
        second = memory.recall("good pizza near the office", touch=False)[1]
        for _ in range(20):
            memory.recall(second.text.split()[0], k=1)
        memory.flush()
        result = memory.recall("good pizza near the office", explain=True, touch=False)
        assert result[0].id == second.id
        assert why(result)[0].popularity_factor == pytest.approx(1 + 20 / 30, rel=0.05)


def test_daily_logs_come_newest_first(memory: Memory) -> None:
    memory.log("Watched Whiplash with Ana.", created="2026-02-14T20:00:00")
    memory.log("Cinema was closed, watched nothing.", created="2026-02-16T20:00:00")
    memory.log("Watched Amélie at home.", created="2026-02-15T20:00:00")
    assert [line.text for line in memory.logs("watched", limit=2)] == [
        "Cinema was closed, watched nothing.",
        "Watched Amélie at home.",
    ]
    assert [line.text for line in memory.logs(day="2026-02-15")] == ["Watched Amélie at home."]
    assert "Watched Amélie at home." not in [hit.text for hit in memory.recall("watched Amélie at home")]


def test_weights_are_learned_from_what_users_click(store: Store) -> None:
    with saved(store.open(config=MemoryConfig(min_score=None))) as memory:
        # They have all the words of what is asked for, and aren't meant.
        memory.remember("Washing machines: control panel broken, reality check.")
        memory.remember("Music school: the fees are due in March.")
        queries = {
            "space exploration": "Interstellar",
            "machines control reality": "The Matrix",
            "music school": "Whiplash",
            "French romance": "Amélie",
            "gardening in space": "The Martian",
        }
        asked = [
            (f"{query}{ending}", title) for query, title in queries.items() for ending in ("", " please", "?", "!")
        ]
        for query, title in asked:
            clicked = next(hit for hit in memory.recall(query) if hit.text.startswith(title))
            memory.feedback(query, clicked.id)
        before = memory.recall("space exploration").alpha
        learned = memory.learn()
        assert learned is not None
        assert learned.judgements == len(asked)
        assert learned.after > learned.before
        after = memory.recall("space exploration")
        assert after.alpha == learned.alpha != before
        assert after.alpha_reason == "learned from 20 judgements"
        assert store.open().recall("anything").alpha == before
        assert memory.unlearn()
        assert memory.recall("space exploration").alpha == before


# --- speed -------------------------------------------------------------------------------------


def test_the_same_query_is_encoded_once(quick: Store) -> None:
    embedding = Model()
    with quick.open(dense=embedding) as memory:
        memory.remember("The Matrix")
        memory.recall("warm up")
        embedding.queries.clear()
        for _ in range(3):
            memory.recall("matrix")
        memory.for_user("bob").recall("matrix")
        memory.recall("another film")
        assert embedding.queries == ["matrix", "another film"]


def test_both_legs_travel_in_one_request_with_more_candidates_than_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = store.client
    with saved(store.open()) as memory:
        memory.recall("warm up")
        batches: list[Sequence[models.QueryRequest]] = []
        real = client.query_batch_points

        def watched(*, requests: Sequence[models.QueryRequest], **rest: object) -> object:
            batches.append(requests)
            return real(requests=requests, **rest)  # type: ignore[arg-type]

        monkeypatch.setattr(client, "query_batch_points", watched)
        memory.recall("explorers in space", k=20)
        fused = [request for batch in batches for request in batch if request.prefetch]
        assert len(batches) == len(fused) == 1
        legs = fused[0].prefetch
        assert isinstance(legs, list)
        assert {leg.using for leg in legs} == {"dense", "bm25"}
        assert all((leg.limit or 0) >= 2 * 20 for leg in legs)


# --- Portuguese --------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "start"), [
    ("ficcao cientifica", "Filmes de ficção científica"),
    ("reuniões", "A reunião com o cliente"),
    ("endereco da avo", "O endereço da avó"),
    ("pagamentos", "O pagamento do aluguel"),
])  # fmt: skip
def test_portuguese_memories_are_found_by_other_forms_and_without_accents(
    portuguese: Memory, query: str, start: str
) -> None:
    assert portuguese.recall(query)[0].text.startswith(start)


@pytest.fixture(scope="module")
def portuguese(store: Store) -> Memory:
    config = MemoryConfig(fields=FIELDS, touch=False)
    memory = store.open(collection="memórias", language="portuguese", config=config)
    memory.remember_many([
        "Filmes de ficção científica são os favoritos da Ana.",
        "A reunião com o cliente foi adiada para quinta-feira.",
        "O endereço da avó é Rua das Flores, 12.",
        "O pagamento do aluguel vence no dia 5.",
        "O carro precisa de pneus novos antes do inverno.",
    ])  # fmt: skip
    return memory
