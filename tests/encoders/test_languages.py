"""Accents and inflections: the same word, however it is written."""

from __future__ import annotations

from functools import lru_cache

import pytest

from twofold import BM25

encoder = lru_cache(BM25)

SAME = {
    "portuguese": [
        "informação informações informacao informacoes INFORMAÇÕES",
        "configuração configurações configuracao",
        "função funções funcao funcoes",
        "avião aviões aviao avioes",
        "versão versões",
        "memória memórias memoria memorias",
        "usuário usuários usuario",
        "país países pais",
        "rápido rápida rapido",
        "São Sao",
    ],
    "spanish": [
        "información informaciones informacion",
        "configuración configuraciones configuracion",
        "canción canciones cancion CANCIÓN",
        "corazón corazones corazon",
        "niño niños nino",
        "árbol árboles arbol",
        "inglés ingleses ingles",
    ],
    "german": [
        "Haus Häuser Hauser",
        "Buch Bücher Bucher",
        "Straße Strasse Straßen",
        "Größe Größen Grosse",
        "Überprüfung Überprüfungen uberprufung",
        "schön schöne schon",
    ],
    "norwegian": [
        "bok bøker boker",
        "språk språket sprak",
        "håndtering håndteringen handtering",
        "måned måneder maned",
        "ærlig aerlig",
        "nøkkel nøkkelen nokkel",
    ],
    "french": [
        "requête requêtes requete",
        "mémoire mémoires memoire",
        "général généraux general",
        "dépôt dépôts depot",
        "créer créé creer",
        "nationalité nationalités nationalite",
    ],
}


@pytest.mark.parametrize(
    ("language", "forms"), [(language, forms) for language, groups in SAME.items() for forms in groups]
)
def test_forms_of_one_word_find_each_other_with_and_without_accents(language: str, forms: str) -> None:
    first, *others = forms.split()
    found = set(encoder(language).embed_documents([f"xyz {first} zyx"])[0].indices)
    for form in others:
        asked = encoder(language).embed_query(form).indices
        assert asked
        assert set(asked) <= found, form


APART = {
    "portuguese": ["informação formação", "limões limpo", "versão verso", "avião ave"],
    "spanish": ["canción cantar", "nación nacer", "acción actor"],
    "german": ["Haus Hase"],
    "norwegian": ["bok bake"],
    "french": ["mémoire même"],
}


@pytest.mark.parametrize(
    ("language", "forms"), [(language, forms) for language, groups in APART.items() for forms in groups]
)
def test_other_words_stay_apart(language: str, forms: str) -> None:
    one, other = (set(encoder(language).embed_query(form).indices) for form in forms.split())
    assert not one & other


STOPWORDS = {
    "portuguese": "não são até também você já é à está",
    "spanish": "también más está él qué sí",
    "german": "für über können würde während",
    "norwegian": "på så når også å være nå",
    "french": "à été même étaient",
}


@pytest.mark.parametrize(("language", "words"), STOPWORDS.items())
def test_stop_words_with_accents_are_stop_words(language: str, words: str) -> None:
    """The engine folds accents before it looks for stop words, and its lists have them."""
    assert [word for word in words.split() if encoder(language).embed_query(word).indices] == []
    text = f"xyz {words.replace(' ', ', ')}: zyx"
    assert encoder(language).embed_documents([text])[0].terms == 2


def test_a_name_that_looks_like_a_stop_word_is_kept() -> None:
    assert encoder("portuguese").embed_query("São Paulo").terms == 2
    assert set(encoder("portuguese").embed_query("sao paulo").indices) == set(
        encoder("portuguese").embed_query("São Paulo").indices
    )
