"""A metadata field that is a document's title, where that is asked for."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.documents import Document

from twofold import Document as StoredDocument
from twofold import HybridIndex, InvalidDocument
from twofold.langchain import HybridRetriever, HybridVectorStore
from twofold.testing import HashEmbedding

NOTES = [
    Document("They are kept for a month.", metadata={"title": "Backups of the database", "year": 2024}),
    Document("It rings at six.", metadata={"title": "Alarm", "year": 2025}),
]


def test_a_title_is_found_by_meaning_and_by_words_and_stays_in_the_metadata() -> None:
    store = HybridVectorStore.from_documents(NOTES, HashEmbedding(), title_key="title")
    for alpha in (0.0, 1.0, None):
        (found,) = store.similarity_search("database backups", k=1, alpha=alpha)
        assert (found.page_content, found.metadata) == (NOTES[0].page_content, NOTES[0].metadata)
    stored = store.index.search("database backups", 1)[0]
    assert (stored.title, stored.text) == ("Backups of the database", "They are kept for a month.")
    assert store.similarity_search("note", filter={"title": "Alarm"})[0].metadata["year"] == 2025
    ids = [document.id for document in store.similarity_search("note", k=2, alpha=1.0)]
    assert store.add_documents(store.similarity_search("note", k=2, alpha=1.0)) == ids  # found and written back
    assert store.index.count() == 2


def test_by_default_metadata_is_for_filters_alone() -> None:
    store = HybridVectorStore.from_documents(NOTES, HashEmbedding())
    assert store.index.search("database backups", alpha=0.0).ids == []
    assert [document.title for document in store.index.fetch()] == [None, None]


def test_a_title_that_is_no_text_is_an_error() -> None:
    with pytest.raises(InvalidDocument, match="title must be a string, got int"):
        HybridVectorStore.from_texts(["a"], HashEmbedding(), [{"title": 1984}], title_key="title")


def test_titles_that_others_stored_come_back_where_they_are_asked_for() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([StoredDocument("It rings at six.", "alarm", {"year": 2025}, title="Alarm")])
        (plain,) = HybridRetriever(index=index).invoke("alarm")
        assert plain.metadata == {"year": 2025}
        retriever = HybridRetriever(index=index, title_key="headline")
        for (found,) in (retriever.invoke("alarm"), asyncio.run(retriever.ainvoke("alarm"))):
            assert found.metadata == {"headline": "Alarm", "year": 2025}
        store = HybridVectorStore(index, title_key="headline")
        assert store.get_by_ids(["alarm"]) == store.similarity_search("alarm") == [found]
