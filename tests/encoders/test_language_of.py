"""A text's language is told by its small words, and not guessed where there are none."""

from __future__ import annotations

import pytest

from twofold.encoders.languages import OTHER, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The tunnel of the home server listens on port 2333.", "english"),
        ("As reuniões com os clientes são sempre às terças, não às quintas.", "portuguese"),
        ("Los informes se envían cada semana a los clientes que lo piden.", "spanish"),
        ("Der Bericht wird jede Woche an die Kunden geschickt, die ihn wollen.", "german"),
        ("Møtene holdes på norsk, og referatene sendes ut samme dag av noen som ikke var der.", "norwegian"),
        ("Le rapport est envoyé chaque semaine à ceux qui le demandent.", "french"),
        ("Отчёт отправляют каждую неделю тем, кто его просит, и не только им.", "russian"),
        ("日本語のテキストを検索する", OTHER),
        ("我们昨天用 Docker 部署了 Kubernetes 集群", OTHER),
        ("Hôm nay trời đẹp quá, chúng tôi đi dạo quanh hồ và uống cà phê.", OTHER),
        ("Včera jsme byli v kině a viděli jsme nový film o vesmíru.", OTHER),
        ("Vincent van der Berg from Den Haag met Ann at the office of the firm.", "english"),
        ("The naïve owner of the café left his résumé on the table.", "english"),
        ("Die Hard is a movie", None),
        ("python flask docker kubernetes redis postgres", None),
        ("", None),
        ("kubernetes", None),
        ("find . -name '*.log' -mtime +7 -delete", None),
        ("a b c d e", None),
    ],
)
def test_language(text: str, language: str | None) -> None:
    assert language_of(text) == language


def test_only_the_beginning_is_looked_at() -> None:
    assert language_of("the cat and the dog " * 50 + "os gatos e as cadelas não são " * 500) == "english"


def test_of_equal_languages_it_is_always_the_same() -> None:
    """Both words are stop words in Danish and in Norwegian."""
    assert language_of("hunden og katten ikke") == "danish"
