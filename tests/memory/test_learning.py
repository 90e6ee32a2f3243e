"""Feedback moves the settings the right way, as far as it reaches, for one user."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from tests.memory.faces import MemoryFace, Opener
from twofold import Fusion, Memory, MemoryConfig
from twofold.ranking.fusion import resolve
from twofold.testing import HashEmbedding

TOPICS = 50
HELD_OUT = range(40, TOPICS)
USUAL = 0.5


class Topical(HashEmbedding):
    """Knows that topic7a and topic7b mean the same, and to which degree a text is about a topic; no other words."""

    def __init__(self, strength: float) -> None:
        super().__init__(256, name=f"topical-{strength}")
        self.strength = strength

    def _embed(self, text: str) -> list[float]:
        topic = next((word[:-1] for word in text.split() if word.startswith("topic")), None)
        about, noise = (self._unit(each) for each in (topic or text, f"noise of {text}"))
        share = self.strength if text.endswith(".") else 1.0  # memories end with a full stop, queries don't
        return [share * a + math.sqrt(1 - share**2) * n for a, n in zip(about, noise, strict=True)]

    def _unit(self, seed: str) -> list[float]:
        rng = random.Random(seed)
        values = [rng.gauss(0, 1) for _ in range(self.dim)]
        length = math.sqrt(sum(value * value for value in values))
        return [value / length for value in values]


def keywords(number: int, count: int) -> str:
    return " ".join([f"keyword{number}", *(f"{letter}word{number}" for letter in ascii_lowercase[: count - 1])])


def query(number: int, count: int = 1) -> str:
    return f"topic{number}a {keywords(number, count)}"


def fill(memory: Any, count: int = 1) -> tuple[list[str], list[str]]:
    """For each query, a memory that means it, and one that has its words."""
    meaning = memory.remember_many([f"topic{n}b said otherwise." for n in range(TOPICS)])
    words = memory.remember_many([f"{keywords(n, count)} in passing." for n in range(TOPICS)])
    return [str(i) for i in meaning], [str(i) for i in words]


def first(memory: Any, wanted: list[str], count: int = 1) -> float:
    """The share of held-out queries that put the wanted memory first."""
    found = [memory.recall(query(n, count), 1, touch=False).ids == [wanted[n]] for n in HELD_OUT]
    return float(sum(found) / len(found))


def open_topical(open_memory: Opener, strength: float, **given: Any) -> MemoryFace:
    return open_memory(dense=Topical(strength), collection=f"topical-{strength}", **given)


@pytest.mark.parametrize(
    ("strength", "count", "liked", "direction"),
    [(0.5, 4, "words", -1), (0.3, 22, "meaning", 1)],
    ids=["words", "meaning"],
)
def test_much_consistent_feedback_moves_alpha_and_the_ranking(
    open_here: Opener, strength: float, count: int, liked: str, direction: int
) -> None:
    memory = open_topical(open_here, strength)
    meaning, words = fill(memory, count)
    good, bad = (words, meaning) if liked == "words" else (meaning, words)
    assert memory.recall(query(0, count)).alpha == USUAL
    before = first(memory, good, count)
    for number in range(40):
        memory.feedback(query(number, count), good[number], True)
        memory.feedback(query(number, count), bad[number], False)
    learned = memory.learn()
    assert learned.judgements == 80
    assert direction * (learned.alpha - USUAL) > 0.15
    assert learned.after > learned.before
    result = memory.recall(query(45, count), explain=True)
    assert result.alpha == learned.alpha
    assert result.alpha_reason == result[0].explanation.alpha_reason == "learned from 80 judgements"
    after = first(memory, good, count)
    assert before < 0.3, "the defaults have it the other way round"
    assert after > 0.9, "queries that nobody judged are answered better too"

    neighbour = memory.for_user(f"{memory.memory.user} too")
    neighbour.remember("topic0b said otherwise.")
    assert neighbour.recall(query(0, count)).alpha == USUAL, "what one user teaches is theirs"

    assert memory.unlearn() is True
    assert memory.unlearn() is False
    assert memory.recall(query(45, count)).alpha == USUAL
    assert first(memory, good, count) == before
    assert memory.stats().judgements == 80, "the feedback stays"
    again = memory.learn()
    assert (again.alpha, again.tag_weight, again.judgements) == (learned.alpha, learned.tag_weight, 80)
    assert again.after == pytest.approx(learned.after, abs=0.01), "all of it is a minute older"


@pytest.mark.parametrize("judged", [1, 2])
def test_little_feedback_stays_near_the_defaults(open_here: Opener, judged: int) -> None:
    memory = open_topical(open_here, 0.9)
    _, words = fill(memory)
    for number in range(judged):
        memory.feedback(query(number), words[number])
    learned = memory.learn()
    assert learned.judgements == judged
    assert abs(learned.alpha - USUAL) < 0.05 * judged
    assert abs(learned.recency_share - memory.memory.config.recency_share) < 0.05 * judged


def test_judging_again_replaces_the_judgement(open_here: Opener) -> None:
    memory = open_topical(open_here, 0.9)
    _, words = fill(memory)
    for useful in (False, True, True):
        memory.feedback(query(0), words[0], useful)
    assert memory.stats().judgements == 1
    assert memory.learn().judgements == 1


def test_without_feedback_nothing_is_learned(open_memory: Opener) -> None:
    memory = open_memory()
    found = memory.remember("the tunnel")
    assert memory.learn() is None
    memory.feedback("tunnel", found)
    assert memory.learn() is None, "one memory alone can't be put in order"
    memory.forget(found)
    assert memory.learn() is None, "nor one that is gone"
    assert memory.unlearn() is False


def test_what_is_gone_counts_no_longer(open_memory: Opener) -> None:
    memory = open_memory()
    ids = [memory.remember(f"the tunnel number {n}") for n in range(4)]
    for identity in ids[:3]:
        memory.feedback("tunnel", identity)
    memory.forget(ids[0])
    assert memory.learn().judgements == 2


def test_it_is_kept_across_reopening(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", user="ada", dense=Topical(0.9)) as memory:
        _, words = fill(memory)
        for number in range(20):
            memory.feedback(query(number), words[number])
        learned = memory.learn()
        assert learned is not None
    with Memory.open(tmp_path / "store", user="ada", dense=Topical(0.9)) as memory:
        assert memory.recall(query(0)).alpha == learned.alpha
        assert memory.recall(query(0)).alpha_reason == f"learned from {learned.judgements} judgements"
        assert memory.for_user("bob").recall(query(0)).alpha == USUAL
        assert memory.unlearn() is True
    with Memory.open(tmp_path / "store", user="ada", dense=Topical(0.9)) as memory:
        assert memory.recall(query(0)).alpha == USUAL


def test_what_is_set_in_code_is_not_learned_over(open_here: Opener) -> None:
    memory = open_topical(open_here, 0.9)
    _, words = fill(memory)
    for number in range(20):
        memory.feedback(query(number), words[number])
    assert memory.learn() is not None
    fixed = open_topical(open_here, 0.9, user=memory.memory.user, config=MemoryConfig(alpha=0.5))
    assert fixed.recall(query(0)).alpha == 0.5
    assert fixed.recall(query(0), alpha=0.9).alpha == 0.9


OUT_OF_REACH = {
    "Ana drinks oat milk only; dairy makes her ill.": "food intolerance",
    "Rathole tunnel on port 2333": "network forwarding",
    "We chose Postgres for billing": "database decision",
    "Deploys happen on Tuesdays": "release schedule",
    "The dentist appointment is on Monday": "teeth doctor",
    "My car needs tyres": "vehicle wheels",
    "Bread needs rye flour": "baking",
}


@pytest.fixture
def taught_the_real_model() -> Iterator[Memory]:
    """What each memory means was asked for four times, and never in its own words."""
    with Memory.open(":memory:", user="ada") as memory:
        ids = memory.remember_many(list(OUT_OF_REACH))
        for again in range(4):
            for identity, asked in zip(ids, OUT_OF_REACH.values(), strict=True):
                memory.feedback(asked + " " * again, identity)
        yield memory


def test_what_puts_nothing_in_better_order_is_left_as_it_was(taught_the_real_model: Memory) -> None:
    memory = taught_the_real_model
    learned = memory.learn()
    assert learned is not None
    assert learned.judgements == 28
    assert learned.before == learned.after
    assert (learned.alpha, learned.tag_weight, learned.recency_share) == (USUAL, 1.0, 0.1)


def test_nothing_relevant_is_still_answered_with_nothing_after_learning(taught_the_real_model: Memory) -> None:
    memory = taught_the_real_model
    memory.remember("Cheese wheels ripen in the cellar; salt is the vehicle of flavour")
    learned = memory.learn()
    assert learned is not None
    assert learned.after > learned.before
    assert learned.alpha > USUAL
    assert memory.recall("tyres").alpha == learned.alpha
    for query in ("guitar chords", "zebra migration in Kenya", "quantum chromodynamics"):
        assert memory.recall(query).ids == [], query
    assert memory.recall("an appointment for my teeth")[0].text.startswith("The dentist")
    assert memory.recall("guitar chords", min_score=0).ids, "a floor of one's own goes before it"


def test_a_session_goes_by_what_its_user_taught_until_it_is_taught_itself(open_here: Opener) -> None:
    memory = open_topical(open_here, 0.9)
    user = memory.memory.user
    meaning, words = fill(memory)
    for number in range(40):
        memory.feedback(query(number), words[number], True)
        memory.feedback(query(number), meaning[number], False)
    learned = memory.learn()
    assert learned.alpha != USUAL
    session = memory.for_user(user, agent="coder", session="today")
    own = [session.remember(f"topic{number}b in this session.") for number in range(3)]
    assert session.recall(query(0)).alpha == learned.alpha
    assert session.unlearn() is False, "it is not the session's own"
    session.feedback(query(0), own[0])
    assert session.learn().judgements == 1
    assert session.recall(query(0)).alpha_reason == "learned from 1 judgement"
    assert memory.recall(query(0)).alpha == learned.alpha
    assert memory.for_user(user, agent="coder").recall(query(0)).alpha == learned.alpha
    assert session.unlearn() is True
    assert session.recall(query(0)).alpha == learned.alpha
    assert memory.for_user(f"{user} too", agent="coder", session="today").recall(query(0)).alpha == USUAL


def test_what_is_learned_is_learned_for_the_fusion_in_use(open_here: Opener) -> None:
    memory = open_topical(open_here, 0.9, config=MemoryConfig(fusion=resolve("weighted")))
    _, words = fill(memory)
    assert memory.recall(query(0)).alpha == 0.5
    for number in range(20):
        memory.feedback(query(number), words[number])
    learned = memory.learn()
    assert learned.fusion == "weighted"
    assert learned.alpha < 0.5, "drawn back towards what is usual for this fusion"
    result = memory.recall(query(45))
    assert (result.alpha, result.alpha_reason) == (learned.alpha, "learned from 20 judgements")
    assert memory.recall(query(45), fusion="auto").alpha == USUAL, "another fusion has another scale"


def test_where_the_weights_are_given_alpha_is_not_learned(open_here: Opener) -> None:
    memory = open_topical(open_here, 0.9, config=MemoryConfig(fusion=Fusion.auto(alpha=0.8)))
    _, words = fill(memory)
    for number in range(20):
        memory.feedback(query(number), words[number])
    assert memory.learn().alpha == 0.8
    assert memory.recall(query(45)).alpha_reason == "the weights of the fusion"


def test_the_explanation_tells_what_was_learned(open_here: Opener) -> None:
    memory = open_topical(open_here, 0.9)
    _, words = fill(memory)
    for number in range(3):
        memory.feedback(query(number), words[number])
    learned = memory.learn()
    told = str(memory.recall(query(45), explain=True)[0].explanation)
    assert told.endswith(f"; alpha {learned.alpha:.4g}, learned from 3 judgements")


def test_forgetting_a_memory_forgets_what_was_said_about_it(open_memory: Opener) -> None:
    memory = open_memory()
    kept, *gone = [memory.remember(f"the tunnel number {n}", source=f"page {n}") for n in range(4)]
    for identity in (kept, *gone):
        memory.feedback("a private question", identity)
    memory.forget(gone[0])
    assert memory.stats().judgements == 3
    memory.forget(source="page 2")
    memory.for_user(memory.memory.user).forget(filter={"source": "page 3"})
    assert memory.stats().judgements == 1
    told = [row for row in memory.raw.rows().values() if "private" in str(row)]
    assert [row["metadata"]["feedback"]["memory"] for row in told] == [str(kept)]
