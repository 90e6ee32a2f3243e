"""Identifiers are found whole and by their parts, and the whole one first."""

from __future__ import annotations

import pytest

from twofold import BM25, Document, HybridIndex
from twofold.encoders.bm25 import extra_tokens
from twofold.testing import HashEmbedding

IDENTIFIERS = {
    "checkRateLimit": "check rate limit",
    "migration_032": "migration 032",
    "ERR_CONN_RESET": "err conn reset",
    "kubectl-apply": "kubectl apply",
    "v1.2.3": "v1 2 3",
    "HTTPServer": "http server",
    "sha256": "sha 256",
    "IPv6": "6",
    "os.path.join": "os path join",
    "XMLHttpRequest": "xml http request",
    "getÅrstall": "get årstall",
    "snake_case_withCamel": "snake case camel",
}
ENCODER = BM25()


def found_by(query: str, text: str) -> bool:
    asked = set(ENCODER.embed_query(query).indices)
    return bool(asked) and asked <= set(ENCODER.embed_documents([text])[0].indices)


@pytest.mark.parametrize(("whole", "parts"), IDENTIFIERS.items())
def test_an_identifier_is_found_whole_and_by_each_part(whole: str, parts: str) -> None:
    text = f"we saw that {whole}, then (again) nothing"
    assert found_by(whole, text)
    for part in parts.split():
        assert found_by(part, text), part


@pytest.mark.parametrize(("whole", "parts"), IDENTIFIERS.items())
def test_the_whole_identifier_ranks_above_its_parts(whole: str, parts: str) -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(
            [
                Document(text=f"a note about {parts} in it", id="a parts"),
                Document(text=f"a note about {whole} in it", id="whole"),
                Document(text="a note about something else", id="else"),
            ]
        )
        ranked = index.search(whole, alpha=0.0)
        assert ranked.ids[0] == "whole"
        assert "else" not in ranked.ids
        if len(ranked) > 1:
            assert ranked[0].score > ranked[1].score
        assert set(index.search(parts, alpha=0.0).ids) == {"whole", "a parts"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a well-known fact", "a well known fact"),
        ("Use it, e.g. here", "use g"),
        ("end.Next sentence", "end Next sentence"),
        ("state-of-the-art", "state art"),
    ],
)
def test_hyphens_and_dots_of_plain_text_are_harmless(one: str, other: str) -> None:
    """Written otherwise, the text is still found by its words; at worst a token more that nobody asks for."""
    mine = set(ENCODER.embed_documents([one])[0].indices)
    plain = set(BM25(split_identifiers=False).embed_documents([one])[0].indices)
    assert plain <= mine
    assert len(mine - plain) <= 2
    assert mine & set(ENCODER.embed_query(other).indices)


def test_a_text_with_neither_compounds_nor_seams_is_left_alone() -> None:
    assert extra_tokens("Plain words, and 42 numbers; _private __init__ naïve -dash-") == []


def test_parts_and_wholes() -> None:
    assert extra_tokens("checkRateLimit") == ["check", "Rate", "Limit"]
    assert extra_tokens("HTTPServer2") == ["HTTP", "Server", "2"]
    joined = extra_tokens("kubectl-apply kubectl_apply")
    assert len(joined) == 2
    assert len(set(joined)) == 1, "a hyphen and an underscore are the same joint"


def test_other_joints_and_other_parts_are_other_identifiers() -> None:
    wholes = [extra_tokens(text)[0] for text in ("a_b", "a_c", "ab_c", "a_bc", "b_a")]
    assert len(set(wholes)) == 5


@pytest.mark.parametrize("whole", ["checkRateLimit", "ERR_CONN_RESET", "HTTPServer", "kubectl-apply"])
def test_case_does_not_matter_for_the_whole(whole: str) -> None:
    assert found_by(whole.lower(), f"({whole})")
    assert set(ENCODER.embed_query(whole.upper()).indices) & set(ENCODER.embed_query(whole).indices)


def test_splitting_can_be_left_out() -> None:
    plain = BM25(split_identifiers=False)
    assert len(plain.embed_query("checkRateLimit").indices) == 1
    assert len(ENCODER.embed_query("checkRateLimit").indices) == 4


def test_a_whole_path_longer_than_any_identifier_is_only_its_parts() -> None:
    path = "_".join(["part"] * 40)
    assert [token for token in extra_tokens(path) if len(token) > 64] == []
    assert found_by("part", path)
