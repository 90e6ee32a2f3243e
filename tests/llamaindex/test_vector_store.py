"""HybridVectorStore: nodes in, nodes out, every query mode, blocking and awaited."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import similarity
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from qdrant_client import AsyncQdrantClient, QdrantClient

from tests.llamaindex.corpus import NOTES, QUERIES, Hashing, vector
from twofold import CollectionMismatch, ConfigError, EncoderError, HybridIndex, InvalidDocument, InvalidQuery
from twofold.llamaindex import HybridRetriever, HybridVectorStore
from twofold.testing import HashEmbedding


class Face:
    """The methods of a store, blocking, whether they are awaited underneath or not."""

    def __init__(self, store: HybridVectorStore, loop: asyncio.AbstractEventLoop | None) -> None:
        self.store, self.loop = store, loop

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.loop is None:
            return getattr(self.store, name)(*args, **kwargs)
        awaited = "async_add" if name == "add" else f"a{name}"
        return self.loop.run_until_complete(getattr(self.store, awaited)(*args, **kwargs))

    def query(self, text: str, mode: Mode = Mode.DEFAULT, k: int = 5, **more: Any) -> VectorStoreQueryResult:
        options = {name: more.pop(name) for name in list(more) if name.startswith("mmr_prefetch")}
        query = VectorStoreQuery(query_str=text, query_embedding=vector(text), similarity_top_k=k, mode=mode, **more)
        result: VectorStoreQueryResult = self("query", query, **options)
        return result

    def ids(self) -> list[str]:
        return sorted(node.node_id for node in self("get_nodes"))


@pytest.fixture(params=["embedded-sync", "embedded-async", "local-async"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    engine, style = request.param.split("-")
    loop = asyncio.new_event_loop() if style == "async" else None
    location: Any = ":memory:" if engine == "embedded" else AsyncQdrantClient(":memory:")
    face = Face(HybridVectorStore(location, embed_model=HashEmbedding()), loop)
    yield face
    face("close")
    if loop:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def noted(**more: Any) -> list[TextNode]:
    return [TextNode(id_=key, text=text, embedding=vector(text), **more) for key, text in NOTES.items()]


@pytest.fixture
def full(face: Face) -> Face:
    assert face("add", noted()) == list(NOTES)
    return face


# --- query modes ---------------------------------------------------------------------------------


def test_hybrid_ranks_as_the_core_does(full: Face) -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as core:
        core.add(NOTES.values(), ids=list(NOTES))
        for query in QUERIES:
            for alpha in (None, 0.0, 0.3, 1.0):
                hits = core.search(query, 5, alpha=alpha)
                result = full.query(query, Mode.HYBRID, alpha=alpha)
                assert result.ids == hits.ids, (query, alpha)
                assert result.similarities == pytest.approx([hit.relevance for hit in hits], rel=1e-6, abs=1e-6)


def test_default_is_by_meaning_with_cosines(full: Face) -> None:
    simple = SimpleVectorStore()
    simple.add(noted())
    for query in QUERIES:
        theirs = simple.query(VectorStoreQuery(query_embedding=vector(query), similarity_top_k=5))
        ours = full.query(query)
        assert ours.ids == theirs.ids
        assert ours.similarities == pytest.approx(theirs.similarities, abs=1e-5)


@pytest.mark.parametrize("mode", [Mode.SPARSE, Mode.TEXT_SEARCH])
def test_words_alone_need_no_vector(full: Face, mode: Mode) -> None:
    result = full("query", VectorStoreQuery(query_str="ERR_CONN_RESET", similarity_top_k=5, mode=mode))
    assert result.ids == ["reset"]
    assert full("query", VectorStoreQuery(query_str="zebra", similarity_top_k=5, mode=mode)).ids == []


def test_hybrid_top_k_goes_before_similarity_top_k(full: Face) -> None:
    assert len(full.query("server", Mode.HYBRID, k=2, hybrid_top_k=4).ids or []) == 4
    assert len(full.query("server", Mode.HYBRID, k=2).ids or []) == 2


def test_sparse_top_k_is_heeded(full: Face) -> None:
    assert len(full.query("the server and the proxy", Mode.SPARSE, k=1, sparse_top_k=3).ids or []) == 3
    narrow = full.query("the server and the proxy", Mode.HYBRID, k=1, hybrid_top_k=4, sparse_top_k=1)
    assert len(narrow.ids or []) == 4  # never fewer candidates than are shown


def test_mmr_differs_from_its_neighbours(face: Face) -> None:
    texts = {"a": "rathole tunnel port", "b": "rathole tunnel port open", "c": "rathole garden", "d": "walnut cake"}
    face("add", [TextNode(id_=key, text=text, embedding=vector(text)) for key, text in texts.items()])
    query = "rathole tunnel port"
    assert face.query(query, Mode.MMR, k=2, mmr_threshold=1.0).ids == face.query(query, k=2).ids == ["a", "b"]
    diverse = face.query(query, Mode.MMR, k=2, mmr_threshold=0.2)
    assert diverse.ids is not None
    assert diverse.ids[0] == "a"
    assert "b" not in diverse.ids
    near = face.query(query, Mode.MMR, k=2, mmr_threshold=0.2, mmr_prefetch_k=2)
    assert near.ids == ["a", "b"]
    assert near.similarities == pytest.approx([similarity(vector(query), vector(texts[key])) for key in "ab"], abs=1e-5)


@pytest.mark.parametrize("mode", [Mode.SVM, Mode.LINEAR_REGRESSION, Mode.LOGISTIC_REGRESSION, Mode.SEMANTIC_HYBRID])
def test_modes_that_make_no_sense_are_errors(full: Face, mode: Mode) -> None:
    with pytest.raises(InvalidQuery, match="hybrid"):
        full.query("server", mode)


def test_a_query_of_nothing_is_an_error(full: Face) -> None:
    for mode in (Mode.DEFAULT, Mode.HYBRID, Mode.TEXT_SEARCH):
        with pytest.raises(InvalidQuery, match="needs"):
            full("query", VectorStoreQuery(mode=mode))


def test_a_text_without_a_vector_is_embedded_here(full: Face) -> None:
    for mode in (Mode.DEFAULT, Mode.HYBRID, Mode.MMR):
        query = VectorStoreQuery(query_str="rathole port", similarity_top_k=3, mode=mode)
        assert full("query", query).ids == full.query("rathole port", mode, k=3).ids


def test_only_some_nodes_or_documents(face: Face) -> None:
    for key, text in NOTES.items():
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{key}")}
        face("add", [TextNode(id_=key, text=text, embedding=vector(text), relationships=source, metadata={"n": 1})])
    assert sorted(face.query("server", node_ids=["vpn", "cake", "none"]).ids or []) == ["cake", "vpn"]
    assert sorted(face.query("server", doc_ids=["doc-vpn", "doc-cake"]).ids or []) == ["cake", "vpn"]
    assert face.query("server", doc_ids=["doc-vpn"], node_ids=["cake"]).ids == []
    assert len(face.query("server", node_ids=[], doc_ids=[]).ids or []) == 5  # LlamaIndex says "any" like that
    n = MetadataFilters(filters=[MetadataFilter(key="n", value=1)])
    assert face.query("server", Mode.HYBRID, node_ids=["cake"], filters=n).ids == ["cake"]


# --- nodes ---------------------------------------------------------------------------------------


def test_nodes_come_back_whole(face: Face) -> None:
    node = TextNode(
        id_="n",
        text="São Paulo 😀",
        metadata={"year": 2014, "tags": ["a", "b"], "nested": {"x": None}, "document_id": "mine"},
        excluded_llm_metadata_keys=["year"],
        excluded_embed_metadata_keys=["tags"],
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", metadata={"file": "x.txt"}),
            NodeRelationship.NEXT: RelatedNodeInfo(node_id="m"),
        },
        start_char_idx=3,
        end_char_idx=15,
        embedding=vector("São Paulo"),
    )
    face("add", [node])
    (back,) = face("get_nodes", ["n"])
    assert back.model_dump(exclude={"embedding"}) == node.model_dump(exclude={"embedding"})
    assert back.ref_doc_id == "doc"
    (found,) = face.query("São Paulo").nodes or []
    assert found.model_dump() == {**back.model_dump(), "embedding": None}


def test_nodes_that_are_parts_lend_each_other_words_and_come_back(face: Face) -> None:
    lines = ["Who takes the minutes?", "Now the budget", "Twelve thousand euros"]
    nodes = [
        TextNode(id_=str(n), text=text, metadata={"part_of": "monday", "position": n}, embedding=vector(text))
        for n, text in enumerate(lines)
    ]
    face("add", nodes)
    assert set(face.query("budget", Mode.TEXT_SEARCH).ids or ()) == {"0", "1", "2"}
    (found,) = face.query(lines[2], k=1).nodes or []
    assert found.model_dump() == {**nodes[2].model_dump(), "embedding": None}
    face("delete_nodes", ["1"])
    assert not face.query("budget", Mode.TEXT_SEARCH).ids
    (nearest,) = face.query(lines[2], k=1).similarities or []
    assert nearest == pytest.approx(1.0, abs=1e-5)  # the vector is the one that came with the node


@pytest.mark.parametrize(
    "node",
    [
        Node(id_="n", text_resource={"text": "a note"}),  # type: ignore[arg-type]
        IndexNode(id_="n", text="a note", index_id="other"),
        ImageNode(id_="n", text="a note", image_url="https://example.com/x.png"),
        ImageNode(id_="n", image_url="https://example.com/x.png"),
    ],
    ids=["node", "index", "image", "image-without-text"],
)
def test_every_kind_of_node(face: Face, node: Any) -> None:
    node.embedding = vector("a note")
    face("add", [node])
    (found,) = face.query("a note").nodes or []
    assert type(found) is type(node)
    assert found.model_dump() == {**node.model_dump(), "embedding": None}


def test_the_given_vector_is_used_as_it_is(face: Face) -> None:
    face("add", [TextNode(id_="odd", text="walnut cake", embedding=vector("rathole tunnel"))])
    face("add", [TextNode(id_="other", text="rathole tunnel", embedding=vector("walnut cake"))])
    assert (face.query("rathole tunnel").ids or [])[0] == "odd"
    assert (face.query("rathole tunnel", Mode.TEXT_SEARCH).ids or [])[0] == "other"


def test_a_node_without_a_vector_is_embedded_here(face: Face) -> None:
    face("add", [TextNode(id_="bare", text="rathole"), TextNode(id_="given", text="cake", embedding=vector("cake"))])
    result = face.query("rathole")
    assert (result.ids or [])[0] == "bare"
    assert (result.similarities or [])[0] == pytest.approx(1, abs=1e-5)


def test_the_same_id_again_replaces_the_node(full: Face) -> None:
    again = [TextNode(id_="cake", text="old", embedding=vector("old")), TextNode(id_="cake", text="new")]
    assert full("add", again) == ["cake", "cake"]
    assert len(full.ids()) == len(NOTES)
    assert full("get_nodes", ["cake"])[0].text == "new"


def test_many_nodes(face: Face) -> None:
    texts = [f"note number {n}" for n in range(300)]
    face("add", [TextNode(id_=f"{n}", text=text, embedding=vector(text)) for n, text in enumerate(texts)])
    assert len(face("get_nodes")) == 300
    assert (face.query("number 177", Mode.HYBRID).ids or [])[0] == "177"


def test_nothing_is_written_if_one_cannot_be(face: Face) -> None:
    good = TextNode(text="fine", embedding=vector("fine"))
    short = TextNode(id_="short", text="x", embedding=[1.0, 2.0])
    odd = TextNode(text="x", embedding=vector("x"), metadata={"_node": 1})
    strange = TextNode(text="x", embedding=vector("x"), metadata={"set": {1, 2}})
    for bad, said in ((short, "'short' .* 2 dimensions.*same embed_model"), (odd, "reserved"), (strange, "JSON")):
        with pytest.raises(InvalidDocument, match=said):
            face("add", [good, bad])
    assert face.ids() == []
    assert face("add", []) == []


# --- deleting ------------------------------------------------------------------------------------


def test_deleting_by_document_by_node_and_by_filter(face: Face) -> None:
    for n in range(6):
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc{n % 2}")}
        metadata = {"third": n % 3}
        face("add", [TextNode(id_=f"{n}", text="x", embedding=vector("x"), relationships=source, metadata=metadata)])
    face("delete", "doc1")
    face("delete", "nothing")
    assert face.ids() == ["0", "2", "4"]
    none = MetadataFilters(filters=[MetadataFilter(key="third", value=0)])
    face("delete_nodes", ["2", "4"], none)
    assert face.ids() == ["0", "2", "4"]
    face("delete_nodes", ["2", "unknown"])
    assert face.ids() == ["0", "4"]
    face("delete_nodes", None, none)
    assert face.ids() == ["4"]
    for nothing in ({}, {"filters": MetadataFilters(filters=[])}):
        with pytest.raises(InvalidQuery, match="clear"):
            face("delete_nodes", **nothing)
    face("clear")
    face("clear")
    assert face.ids() == []


def test_nodes_by_id_come_in_that_order(full: Face) -> None:
    assert [node.node_id for node in full("get_nodes", ["vpn", "missing", "cake", "disk"])] == ["vpn", "cake", "disk"]
    assert full("get_nodes", []) == []
    assert full.ids() == sorted(NOTES)


def test_nodes_come_with_their_embeddings(full: Face) -> None:
    for node in full("get_nodes"):
        assert similarity(node.embedding, vector(NOTES[node.node_id])) == pytest.approx(1.0, abs=1e-5)
    full("add", [TextNode(id_="empty", text="")])
    (empty,) = full("get_nodes", ["empty"])
    assert empty.embedding is None


# --- in a VectorStoreIndex -----------------------------------------------------------------------


def documents() -> list[Document]:
    return [Document(text=text, id_=key, metadata={"letters": len(text)}) for key, text in NOTES.items()]


def build(store: HybridVectorStore, embed_model: Any, **more: Any) -> VectorStoreIndex:
    context = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex.from_documents(documents(), storage_context=context, embed_model=embed_model, **more)


async def test_an_index_from_documents(tmp_path: Path) -> None:
    with HybridVectorStore(tmp_path / "store", embed_model=Hashing()) as store:
        index = build(store, Hashing(), transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0)])
        retriever = index.as_retriever(vector_store_query_mode="hybrid", similarity_top_k=3)
        found = retriever.retrieve("which port do rathole tunnels use")
        assert (found[0].text, found[0].node.ref_doc_id) == (NOTES["tunnel"], "tunnel")
        again = await retriever.aretrieve("which port do rathole tunnels use")
        assert [(node.node_id, node.score) for node in again] == [(node.node_id, node.score) for node in found]
        words = index.as_retriever(vector_store_query_mode="text_search").retrieve("rotate_keys")
        assert [node.text for node in words] == [NOTES["keys"]]
        index.delete_ref_doc("tunnel")
        assert all(node.text != NOTES["tunnel"] for node in retriever.retrieve("rathole tunnels"))
    with HybridVectorStore(tmp_path / "store", embed_model=Hashing()) as store:
        opened = VectorStoreIndex.from_vector_store(store, embed_model=Hashing())
        assert opened.as_retriever().retrieve("apple cake eggs")[0].text == NOTES["cake"]
        ours = HybridRetriever(index=store.index, similarity_top_k=1).retrieve("apple cake eggs")[0]
        assert (ours.text, ours.node.ref_doc_id, ours.metadata["letters"]) == (
            NOTES["cake"],
            "cake",
            len(NOTES["cake"]),
        )


async def test_an_index_that_is_built_awaiting() -> None:
    async with await HybridVectorStore.aopen(AsyncQdrantClient(":memory:"), embed_model=Hashing()) as store:
        index = VectorStoreIndex.from_vector_store(store, embed_model=Hashing(), use_async=True)
        await index.ainsert_nodes([TextNode(id_=key, text=text) for key, text in NOTES.items()])
        found = await index.as_retriever(vector_store_query_mode="hybrid").aretrieve("rathole port")
        assert found[0].node_id == "tunnel"
        await index.adelete_nodes(["tunnel"])
        assert await store.aget_nodes(["tunnel"]) == []


def test_the_bundled_model_needs_nothing_else() -> None:
    with HybridVectorStore() as store:
        index = build(store, store.embed_model)
        found = index.as_retriever(vector_store_query_mode="hybrid", similarity_top_k=3).retrieve("baking a pie")
        assert found[0].text == NOTES["cake"]
        assert store.index.dense_model is not None
        assert store.embed_model.model_name == store.index.dense_model


async def test_the_stores_own_model_is_a_llamaindex_embedding() -> None:
    with HybridVectorStore(embed_model=HashEmbedding()) as store:
        model = store.embed_model
        expected = pytest.approx(vector("rathole"), abs=1e-6)
        assert model.get_text_embedding("rathole") == expected
        assert model.get_query_embedding("rathole") == expected
        assert await model.aget_text_embedding("rathole") == expected
        assert await model.aget_query_embedding("rathole") == expected
        assert (await model.aget_text_embedding_batch(["rathole", "cake"]))[0] == expected
        assert model.get_text_embedding_batch(["rathole"] * 30)[29] == expected


def test_the_model_is_recorded(tmp_path: Path) -> None:
    with HybridVectorStore(tmp_path / "store", embed_model=Hashing()) as store:
        assert store.index.info().dense_model == "Hashing:hashing"
    with pytest.raises(CollectionMismatch, match="two models"):
        HybridVectorStore(tmp_path / "store", embed_model=HashEmbedding())
    with HybridIndex.open(tmp_path / "store", dense=Hashing()) as index:
        assert index.count() == 0


def test_vectors_of_a_model_that_is_not_at_hand(tmp_path: Path) -> None:
    with HybridVectorStore(tmp_path / "store", dims=64) as store:
        store.add(noted())
        assert store.index.info().dense_model == "given:64"
        query = VectorStoreQuery(query_str="rathole", query_embedding=vector("rathole"), similarity_top_k=1)
        query.mode = Mode.HYBRID
        assert store.query(query).ids == ["tunnel"]
    with HybridVectorStore(tmp_path / "store", dims=64) as store:
        words = VectorStoreQuery(query_str="rathole", similarity_top_k=1, mode=Mode.HYBRID)
        assert store.query(words).ids == ["tunnel"]  # by words: there is nothing that could embed the query
    for dims in (0, True, "64"):
        with pytest.raises(ConfigError):
            HybridVectorStore(dims=dims)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="leave dims"):
        HybridVectorStore(dims=64, embed_model=HashEmbedding())


def test_documents_that_were_never_nodes_are_found_too() -> None:
    with HybridIndex.open(QdrantClient(":memory:"), dense=HashEmbedding()) as index:
        index.add(NOTES.values(), ids=list(NOTES), metadatas=[{"n": 1}] * len(NOTES))
        store = HybridVectorStore(index=index)
        assert store.client is index
        (node,) = store.get_nodes(["cake"])
        assert isinstance(node, TextNode)
        assert (node.text, node.metadata) == (NOTES["cake"], {"n": 1})
        assert node.get_content(metadata_mode=MetadataMode.NONE) == NOTES["cake"]


def test_it_serialises_as_other_stores_do() -> None:
    with HybridVectorStore(embed_model=HashEmbedding()) as store:
        told = store.to_dict()
        assert (told["class_name"], told["stores_text"]) == ("HybridVectorStore", True)


def test_nodes_without_a_vector_are_embedded_and_stored_a_batch_at_a_time() -> None:
    calls: list[int] = []

    class Small(HashEmbedding):
        def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
            calls.append(len(texts))
            assert len(texts) <= 100, "more inputs than many a service takes"
            return super().embed_documents(texts)

    store = HybridVectorStore(location=":memory:", embed_model=Small())
    nodes = [TextNode(id_=f"n{number}", text=f"page {number}") for number in range(130)]
    assert store.add([*nodes, nodes[0]]) == [*(node.node_id for node in nodes), "n0"]
    assert sum(calls) == 130
    calls.clear()
    with pytest.raises(InvalidDocument):
        store.add([TextNode(id_="good", text="good"), TextNode(id_="bad", text="bad", metadata={"x": float("nan")})])
    assert not calls
    with pytest.raises(EncoderError, match="the embedding of node 'nan'"):
        store.add([TextNode(id_="nan", text="x", embedding=[float("nan")] * Small().dim)])


def test_the_stores_own_model_can_travel_to_other_processes() -> None:
    """As `IngestionPipeline(num_workers=2)` sends it there."""
    with HybridVectorStore() as store:
        travelled = pickle.loads(pickle.dumps(store.embed_model))
        assert travelled.get_text_embedding("rathole") == store.embed_model.get_text_embedding("rathole")
    with (
        HybridVectorStore(embed_model=HashEmbedding()) as store,
        pytest.raises(ConfigError, match="your own embedding"),
    ):
        pickle.loads(pickle.dumps(store.embed_model))
