"""Where settings come from, and which of several wins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.memory.faces import MemoryFace, Opener
from twofold import ConfigError, Memory, MemoryConfig
from twofold.memory.config import from_environment, settle
from twofold.ranking.fusion import resolve
from twofold.testing import HashEmbedding


@pytest.mark.parametrize(
    ("field", "written", "meant"),
    [
        ("alpha", "0.25", 0.25),
        ("alpha", " 1 ", 1.0),
        ("k", "7", 7),
        ("depth", "50", 50),
        ("min_score", "0.3", 0.3),
        ("min_score", "auto", "auto"),
        ("min_score", "none", None),
        ("alpha", "None", None),
        ("min_trust", "none", None),
        ("near_duplicate", "none", None),
        ("tag_weight", "0", 0.0),
        ("recency", "blend", "blend"),
        ("recency_decay", "0.05", 0.05),
        ("recency_share", "1", 1.0),
        ("popularity", "0", 0.0),
        ("importance", "1", 1.0),
        ("pinned", "2", 2.0),
        ("type_weights", '{"decision": 1.2}', {"decision": 1.2}),
        ("type_alpha", '{"movie": 0.8}', {"movie": 0.8}),
        ("fields", '{"year": "integer"}', {"year": "integer"}),
        ("category_weight", "0.1", 0.1),
        ("tags_weight", "0.2", 0.2),
        ("min_trust", "agent", "agent"),
        ("typos", "false", False),
        ("touch", "0", False),
        ("near_duplicate", "0.95", 0.95),
        ("text_fallback", "no", False),
        ("rerank", "Xenova/ms-marco-MiniLM-L-6-v2", "Xenova/ms-marco-MiniLM-L-6-v2"),
        ("rerank_top", "12", 12),
        ("rerank_timeout", "2.5", 2.5),
        ("log_queries", "1", True),
    ],
)
def test_every_setting_can_be_made_in_the_environment(field: str, written: str, meant: Any) -> None:
    assert from_environment({f"TWOFOLD_{field.upper()}": written}) == {field: meant}


def test_the_list_above_is_complete() -> None:
    marks = test_every_setting_can_be_made_in_the_environment.pytestmark
    assert {row[0] for row in marks[0].args[1]} | {"fusion"} == set(MemoryConfig.model_fields)
    assert from_environment({"TWOFOLD_FUSION": "rrf"})["fusion"].name == "rrf"


def test_the_names_of_other_servers_are_known_and_ours_win() -> None:
    theirs = {"MCP_MEMORY_HYBRID_ALPHA": "0.4", "MCP_MEMORY_RECENCY_DECAY": "0.02"}
    assert from_environment(theirs) == {"alpha": 0.4, "recency_decay": 0.02}
    assert from_environment({**theirs, "TWOFOLD_ALPHA": "0.6"}) == {"alpha": 0.6, "recency_decay": 0.02}
    assert from_environment({**theirs, "TWOFOLD_ALPHA": " "}) == {"alpha": 0.4, "recency_decay": 0.02}, "blank is unset"
    assert from_environment({"TWOFOLD_SOMETHING": "x", "ALPHA": "5"}) == {}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TWOFOLD_ALPHA", "much"),
        ("TWOFOLD_ALPHA", "1.5"),
        ("TWOFOLD_ALPHA", "nan"),
        ("MCP_MEMORY_HYBRID_ALPHA", "-1"),
        ("MCP_MEMORY_RECENCY_DECAY", "slowly"),
        ("TWOFOLD_K", "2.5"),
        ("TWOFOLD_K", "none"),
        ("TWOFOLD_FUSION", "none"),
        ("TWOFOLD_RECENCY", "hard"),
        ("TWOFOLD_FUSION", "magic"),
        ("TWOFOLD_MIN_TRUST", "god"),
        ("TWOFOLD_TYPE_ALPHA", '{"movie": 2}'),
        ("TWOFOLD_TYPE_WEIGHTS", '{"movie": -1}'),
        ("TWOFOLD_TYPE_WEIGHTS", '{"movie":'),
        ("TWOFOLD_FIELDS", '["year"]'),
        ("TWOFOLD_TOUCH", "perhaps"),
    ],
)
def test_a_wrong_value_says_where_it_stands(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as caught:
        Memory.open(":memory:", user="ada", dense=HashEmbedding())
    assert variable in str(caught.value)
    assert repr(value) in str(caught.value)
    assert str(caught.value).endswith("Change or unset it")


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 2}, {"alpha": float("nan")}, {"type_alpha": {"movie": 1.1}}, {"type_alpha": {"movie": float("nan")}},
     {"min_trust": "god"}, {"colour": "red"}, {"k": -1}, {"recency": "hard"}, {"popularity": float("inf")}],
)  # fmt: skip
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        MemoryConfig(**wrong)
    (name,) = wrong
    assert str(caught.value).startswith(name)
    assert str(caught.value).endswith("Change or leave it out")


def test_code_goes_before_the_environment_and_that_before_the_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_POPULARITY", "0.2")
    monkeypatch.setenv("TWOFOLD_K", "3")
    settled, _ = settle("knowledge", MemoryConfig(k=5), None)
    assert (settled.k, settled.popularity, settled.recency_decay, settled.importance) == (5, 0.2, 0.0, 0.1)
    assert settle("knowledge", None, None)[0].k == 3
    assert settle("knowledge", MemoryConfig(k=10), None)[0].k == 10, "a value that is the default was still given"


def taught(memory: MemoryFace) -> None:
    ids = [memory.remember(f"the tunnel number {n}") for n in range(4)]
    memory.feedback("tunnel number", ids[0])
    assert memory.learn() is not None


def told(memory: MemoryFace, **given: Any) -> tuple[float | None, str]:
    result = memory.recall("tunnel", explain=True, **given)
    assert {hit.explanation.alpha_reason for hit in result} == {result.alpha_reason}
    return result.alpha, result.alpha_reason


def test_alpha_says_where_it_comes_from(open_memory: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call, then the configuration, then the environment, then what was learned, then the default."""
    plain = open_memory()
    user = plain.memory.user
    plain.remember("the tunnel")
    assert told(plain) == (0.5, "meaning and words count alike, each on the scale that it has here")
    taught(plain)
    alpha, reason = told(plain)
    assert reason == "learned from 1 judgement"
    assert alpha == plain.learn().alpha
    monkeypatch.setenv("TWOFOLD_ALPHA", "0.6")
    around = open_memory(user)
    assert told(around) == (0.6, "set in the environment")
    configured = open_memory(user, config=MemoryConfig(alpha=0.7))
    assert told(configured) == (0.7, "set in the configuration")
    assert told(configured, alpha=0.8) == (0.8, "given with the call")
    assert told(open_memory(user, config=MemoryConfig(alpha=None)))[1] == "learned from 1 judgement"


def test_alpha_adapts_to_the_number_of_memories_where_the_fusion_does(open_here: Opener) -> None:
    memory = open_here(config=MemoryConfig(fusion=resolve("weighted")))
    memory.remember("the tunnel")
    assert told(memory) == (0.5, "adapted to 1 memories")
    assert told(memory, fusion="rrf") == (None, "the weights of the fusion")


def test_settings_of_the_environment_are_in_force(open_here: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_K", "2")
    monkeypatch.setenv("MCP_MEMORY_RECENCY_DECAY", "0")
    memory = open_here()
    for number in range(4):
        memory.remember(f"the tunnel number {number}", created="2001-01-01")
    result = memory.recall("tunnel", explain=True)
    assert len(result) == 2
    assert {hit.explanation.recency_factor for hit in result} == {1.0}


def test_knowledge_does_not_fade_unless_it_is_told_to(open_here: Opener) -> None:
    memory = open_here()
    facts = memory.knowledge()
    assert (facts.memory.config.recency_decay, facts.memory.config.popularity) == (0, 0)
    assert memory.knowledge(config=MemoryConfig(popularity=0.3)).memory.config.popularity == 0.3
    assert facts.remember("water boils at 100 °C").is_new
    assert facts.recall("water")[0].memory.type == "fact"
    assert memory.recall("water").ids == []
    assert memory.knowledge().memory._store is facts.memory._store, "asked again, it is the same"
    with pytest.raises(ConfigError, match="kind must be one of memories, knowledge"):
        Memory.open(":memory:", user="ada", kind="rumours", dense=HashEmbedding())  # type: ignore[arg-type]
