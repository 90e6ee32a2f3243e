"""A metadata field that is a node's title, where that is asked for."""

from __future__ import annotations

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode

from tests.llamaindex.corpus import Hashing
from twofold import Document
from twofold.llamaindex import HybridRetriever, HybridVectorStore

NODES = [
    TextNode(id_="kept", text="They are kept for a month.", metadata={"title": "Backups of the database"}),
    TextNode(id_="alarm", text="It rings at six."),
]
BY_WORDS = VectorStoreQuery(query_str="database backups", mode=Mode.SPARSE)


def test_the_words_of_a_title_find_the_node_and_it_comes_back_as_it_was() -> None:
    with HybridVectorStore(embed_model=Hashing(), title_key="title") as store:
        store.add(NODES)
        (found,) = store.query(BY_WORDS).nodes or ()
        assert (found.node_id, found.get_content(), found.metadata) == ("kept", NODES[0].text, NODES[0].metadata)
        assert [document.title for document in store.index.get(["kept", "alarm"]) if document] == [
            "Backups of the database",
            None,
        ]
        store.add([found])
        assert store.index.count() == 2


def test_by_default_metadata_is_for_filters_alone() -> None:
    with HybridVectorStore(embed_model=Hashing()) as store:
        store.add(NODES)
        assert store.query(BY_WORDS).nodes == []


def test_titles_that_others_stored_come_back_where_they_are_asked_for() -> None:
    with HybridVectorStore(embed_model=Hashing(), title_key="headline") as store:
        store.index.add([Document("It rings at six.", "alarm", title="Alarm")])
        (plain,) = HybridRetriever(store.index).retrieve("alarm")
        (titled,) = HybridRetriever(store.index, title_key="headline").retrieve("alarm")
        assert (plain.metadata, titled.metadata) == ({}, {"headline": "Alarm"})
        assert store.get_nodes(["alarm"])[0].metadata == {"headline": "Alarm"}
