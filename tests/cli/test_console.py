from __future__ import annotations

import pytest

from twofold.cli.console import bar, snippet


def emphasised(text: str, *matched: str) -> list[str]:
    shown = snippet(text, matched, 200)
    return [shown.plain[span.start : span.end] for span in shown.spans if "bold" in str(span.style)]


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("Rathole tunnels, a tunnel", "tunnel", ["tunnels", "tunnel"]),
        ("throttled by checkRateLimit()", "limiting", ["checkRateLimit"]),
        ("run migration_032 now", "migration_032", ["migration_032"]),
        ("Uma REUNIÃO amanhã", "reuniao", ["REUNIÃO"]),
        ("the art of party", "art", ["art"]),
        ("nothing here", "rate", []),
        ("", "rate", []),
    ],
)
def test_matched_words_are_emphasised(text: str, word: str, expected: list[str]) -> None:
    assert emphasised(text, word) == expected


def test_a_long_text_is_cut_at_words_around_the_first_match() -> None:
    shown = snippet("lorem " * 100 + "needle " + "ipsum " * 100, ["needle"], 100).plain
    assert shown.startswith("… lorem ")
    assert shown.endswith(" ipsum …")
    assert "needle" in shown
    assert len(shown) <= 104


def test_one_endless_word_is_cut_anywhere() -> None:
    assert len(snippet("x" * 5000, [], 100).plain) <= 104


@pytest.mark.parametrize(("share", "drawn"), [(0, "····"), (1, "████"), (0.5, "██··"), (0.001, "▏···"), (7, "████")])
def test_bars(share: float, drawn: str) -> None:
    assert bar(share, 4, "cyan").plain == drawn


def test_bars_in_ascii() -> None:
    assert bar(0.5, 4, "cyan", ascii_only=True).plain == "##.."
