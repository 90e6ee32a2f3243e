"""`HybridVectorStore` beyond the conformance suite: every method, blocking and awaited, ranks as the core does."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, aindex
from langchain_core.indexing import index as sync_index
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from qdrant_client import AsyncQdrantClient, QdrantClient

from tests.langchain.corpus import DOCUMENTS, QUERIES
from twofold import FilterError, HybridIndex, InvalidDocument, InvalidQuery, SearchResult
from twofold.langchain import HybridTranslator, HybridVectorStore
from twofold.testing import HashEmbedding

TEXTS = [document.text for document in DOCUMENTS]
METADATAS: list[dict[str, Any]] = [dict(document.metadata) for document in DOCUMENTS]
IDS = [document.id or "" for document in DOCUMENTS]


@pytest.fixture(scope="module")
def store() -> Iterator[HybridVectorStore]:
    store = HybridVectorStore.from_texts(TEXTS, HashEmbedding(), METADATAS, ids=IDS)
    yield store
    store.index.close()


@pytest.fixture(params=["embedded", "local"])
def empty(request: pytest.FixtureRequest) -> Iterator[HybridVectorStore]:
    location: Any = ":memory:" if request.param == "embedded" else QdrantClient(":memory:")
    with HybridIndex.open(location, dense=HashEmbedding()) as index:
        yield HybridVectorStore(index)


async def both(store: HybridVectorStore, method: str, *args: Any, **kwargs: Any) -> Any:
    """What a method gives, and its awaited twin too."""
    twin = f"_a{method[1:]}" if method.startswith("_") else f"a{method}"
    value = getattr(store, method)(*args, **kwargs)
    assert await getattr(store, twin)(*args, **kwargs) == value
    return value


def as_documents(result: SearchResult) -> list[Document]:
    return [Document(hit.text, id=hit.id, metadata=dict(hit.metadata)) for hit in result]


async def test_it_ranks_exactly_as_the_core_does(store: HybridVectorStore) -> None:
    asked: dict[str, Any] = {"k": 5, "filter": {"year": [2020, 2021]}, "alpha": 0.7, "fusion": "dbsf"}
    embedding = HashEmbedding()
    for query in QUERIES:
        found = store.index.search(query, 4)
        assert await both(store, "similarity_search", query) == as_documents(found)
        assert await both(store, "similarity_search", query, **asked) == as_documents(
            store.index.search(query, **asked)
        )
        scored = await both(store, "similarity_search_with_score", query)
        assert scored == list(zip(as_documents(found), [hit.score for hit in found], strict=True))
        relevant = await both(store, "similarity_search_with_relevance_scores", query, fusion="rrf")
        ranked = store.index.search(query, 4, fusion="rrf")  # whose scores are far from 1
        assert relevant == list(zip(as_documents(ranked), [hit.relevance for hit in ranked], strict=True))
        assert all(0 <= relevance <= 1 for _, relevance in relevant)
        vector = embedding.embed_query(query)
        assert await both(store, "similarity_search_by_vector", vector) == as_documents(
            store.index.search_by_vector(vector, 4)
        )


async def test_marginal_relevance_is_that_of_the_core(store: HybridVectorStore) -> None:
    embedding = HashEmbedding()
    for query in QUERIES:
        wanted = as_documents(store.index.search_diverse(query, 3, candidates=8, diversity=0.7))
        asked: dict[str, Any] = {"k": 3, "fetch_k": 8, "lambda_mult": 1 - 0.7}
        assert await both(store, "max_marginal_relevance_search", query, **asked) == wanted
        vector = embedding.embed_query(query)
        near = store.similarity_search_by_vector(vector, 8)
        vectors = embedding.embed_documents([document.page_content for document in near])
        chosen = maximal_marginal_relevance(np.asarray(vector), vectors, lambda_mult=1 - 0.7, k=3)
        found = await both(store, "max_marginal_relevance_search_by_vector", vector, **asked)
        assert found == [near[place] for place in chosen]
    ranked = await both(store, "max_marginal_relevance_search", "port", lambda_mult=1.0)
    assert ranked == store.similarity_search("port")


async def test_every_search_type_of_a_retriever(store: HybridVectorStore) -> None:
    query = "rathole port"
    plain = store.as_retriever(search_kwargs={"k": 2, "filter": {"year": {"lt": 2023}}})
    assert plain.invoke(query) == store.similarity_search(query, k=2, filter={"year": {"lt": 2023}})
    mmr = store.as_retriever(search_type="mmr", search_kwargs={"k": 3, "fetch_k": 6, "lambda_mult": 0.2})
    assert mmr.invoke(query) == store.max_marginal_relevance_search(query, 3, 6, 0.2)
    floor = store.similarity_search_with_relevance_scores(query)[0][1]
    assert floor > 0.5, "an answer, on a scale that thresholds can be set on"
    above = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": floor})
    assert [document.id for document in above.invoke(query)] == store.index.search(query, 1).ids
    for retriever in (plain, mmr, above):
        assert await retriever.ainvoke(query) == retriever.invoke(query)
        assert retriever.tags == ["HybridVectorStore", "IndexEmbeddings"]
    assert [document.id for document in plain.invoke(query, k=1)] == ["doc 4"]


async def test_documents_are_added_replaced_fetched_and_deleted(empty: HybridVectorStore) -> None:
    documents = [Document("one", id="a", metadata={"n": 1}), Document("two"), Document("three", id="c")]
    ids = empty.add_documents(documents)
    assert ids[::2] == ["a", "c"]
    assert await empty.aadd_documents(documents) == ids, "an id of its own, derived from what the document holds"
    assert empty.index.count() == 3
    assert documents[1].id is None
    assert await empty.aadd_documents([Document("uno", id="ignored")], ids=["a"]) == ["a"]
    assert empty.add_texts((text for text in ["four"]), [{"n": 4}], ids=["d"]) == ["d"]
    assert await both(empty, "get_by_ids", ["d", "missing", "a"]) == [
        Document("four", id="d", metadata={"n": 4}),
        Document("uno", id="a"),
    ]
    assert empty.delete(["a", "missing"]) is True
    assert await empty.adelete([]) is True
    assert empty.index.count() == 3
    assert await empty.adelete(filter={"n": 4}) is True
    assert sorted(document.page_content for document in empty.similarity_search("two", k=9)) == ["three", "two"]
    with pytest.raises(FilterError):
        empty.delete(filter={})
    assert empty.delete() is True
    assert empty.index.count() == 0
    empty.add_texts(["five"])
    assert await empty.adelete() is True
    assert empty.index.count() == 0


async def test_parts_of_something_lend_each_other_context_and_come_back(empty: HybridVectorStore) -> None:
    lines = ["Who takes the minutes?", "Now the budget", "Twelve thousand euros"]
    places = [{"part_of": "monday", "position": place} for place in range(3)]
    documents = [Document(text, id=str(n), metadata=places[n]) for n, text in enumerate(lines)]
    await empty.aadd_documents(documents)
    found = await both(empty, "similarity_search", "budget", k=3, alpha=0.0, filter={"part_of": "monday"})
    assert sorted(found, key=lambda each: each.id) == documents
    empty.add_documents(found)
    assert empty.get_by_ids(["2"]) == [documents[2]]
    assert empty.index.fetch({"position": 2})[0].part_of == "monday"


async def test_a_text_may_have_no_metadata_beside_others_that_do(empty: HybridVectorStore) -> None:
    metadatas: Any = [None, {"n": 2}]
    ids = empty.add_texts(["one", "two"], metadatas)
    assert await empty.aadd_texts(["one", "two"], metadatas) == ids
    assert [document.metadata for document in empty.get_by_ids(ids)] == [{}, {"n": 2}]


async def test_what_does_not_fit_together_is_refused(empty: HybridVectorStore) -> None:
    with pytest.raises(InvalidDocument, match="2 texts but 1 ids"):
        empty.add_texts(["a", "b"], ids=["1"])
    with pytest.raises(InvalidDocument, match="1 texts but 2 metadatas"):
        await empty.aadd_texts(["a"], [{}, {}])
    with pytest.raises(InvalidQuery, match="64 dimensions"):
        empty.similarity_search_by_vector([1.0])
    with pytest.raises(TypeError, match="colour"):
        empty.similarity_search("a", colour="red")
    assert empty.index.count() == 0
    assert empty.add_texts([]) == []


async def test_from_texts_and_from_documents_into_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "store"
    made = HybridVectorStore.from_texts(["one"], HashEmbedding(), [{"n": 1}], ids=["a"], location=place, collection="x")
    made.index.close()
    more = await HybridVectorStore.afrom_documents(
        [Document("two", id="b")], HashEmbedding(), location=place, collection="x"
    )
    assert [document.id for document in more.get_by_ids(["a", "b"])] == ["a", "b"]
    await more.index.aclose()
    again = HybridVectorStore.from_documents([], HashEmbedding(), location=place, collection="x", create=False)
    assert again.similarity_search("one", k=1) == [Document("one", id="a", metadata={"n": 1})]
    again.index.close()


async def test_without_an_embedding_the_bundled_model_serves() -> None:
    store = await HybridVectorStore.afrom_texts(["The cat sat on the mat.", "Stocks fell on Monday."])
    assert [found.page_content for found in store.similarity_search("kitten", k=1)] == ["The cat sat on the mat."]
    vector = store.embeddings.embed_query("kitten")
    assert len(vector) == 384
    assert await store.embeddings.aembed_query("kitten") == vector
    vectors = store.embeddings.embed_documents(["a kitten", "share prices dropped"])
    assert await store.embeddings.aembed_documents(["a kitten", "share prices dropped"]) == vectors
    assert store.similarity_search_by_vector(vectors[1], k=1)[0].page_content == "Stocks fell on Monday."
    store.index.close()


async def test_ones_own_embedding_is_the_stores() -> None:
    own = DeterministicFakeEmbedding(size=16)
    store = HybridVectorStore.from_texts(["a"], own)
    assert store.embeddings is own
    assert store.as_retriever().tags == ["HybridVectorStore", "DeterministicFakeEmbedding"]
    store.index.close()


async def test_on_an_async_client_everything_can_be_awaited() -> None:
    client = AsyncQdrantClient(":memory:")
    store = await HybridVectorStore.afrom_texts(TEXTS, HashEmbedding(), METADATAS, ids=IDS, location=client)
    assert [document.id for document in await store.asimilarity_search("rathole port", k=1)] == ["doc 4"]
    assert len(await store.amax_marginal_relevance_search("port", k=3)) == 3
    vector = await store.embeddings.aembed_query("rathole port")
    assert len(await store.asimilarity_search_by_vector(vector, k=2)) == 2
    assert await store.adelete(IDS) is True
    await client.close()


async def test_langchains_indexing_keeps_a_store_in_step(empty: HybridVectorStore) -> None:
    records = InMemoryRecordManager("notes")
    records.create_schema()
    old = [Document("one", metadata={"source": "a"}), Document("two", metadata={"source": "b"})]
    new = [Document("one", metadata={"source": "a"}), Document("three", metadata={"source": "b"})]
    rules: dict[str, Any] = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    assert sync_index(old, records, empty, **rules)["num_added"] == 2
    done = await aindex(new, records, empty, **rules)
    assert (done["num_added"], done["num_skipped"], done["num_deleted"]) == (1, 1, 1)
    assert sorted(found.page_content for found in empty.similarity_search("one", k=9)) == ["one", "three"]


def test_nothing_of_the_interface_is_left_to_threads_or_undone() -> None:
    """Every public method that the interface leaves open or runs in a thread is the store's own."""
    inherited = {"search", "asearch", "as_retriever"}  # these call the store's own methods
    inherited |= {"similarity_search_with_relevance_scores", "asimilarity_search_with_relevance_scores"}
    public = {name for name, _ in inspect.getmembers(VectorStore, callable) if not name.startswith("_")}
    assert {name for name in public if name not in vars(HybridVectorStore)} == inherited


def says(comparator: Comparator, attribute: str, value: Any) -> Comparison:
    return Comparison(comparator=comparator, attribute=attribute, value=value)


def combined(operator: Operator, *parts: Any) -> Operation:
    return Operation(operator=operator, arguments=list(parts))


AFTER_2020 = says(Comparator.GTE, "year", 2021)


@pytest.mark.parametrize(
    ("asked", "keeps"),
    [
        (None, lambda own: True),
        (AFTER_2020, lambda own: own["year"] >= 2021),
        (combined(Operator.NOT, AFTER_2020), lambda own: own["year"] < 2021),
        (says(Comparator.CONTAIN, "tags", "ops"), lambda own: "ops" in own["tags"]),
        (says(Comparator.IN, "year", [2020, 2022]), lambda own: own["year"] in (2020, 2022)),
        (says(Comparator.NIN, "year", 2020), lambda own: own["year"] != 2020),
        (
            combined(Operator.AND, AFTER_2020, combined(Operator.OR, *[says(Comparator.EQ, "tags", t) for t in "ab"])),
            lambda own: own["year"] >= 2021 and {"a", "b"} & set(own["tags"]),
        ),
    ],
)
def test_what_a_model_asks_of_the_metadata_becomes_a_filter(store: HybridVectorStore, asked: Any, keeps: Any) -> None:
    query = StructuredQuery(query="clients", filter=asked)
    text, arguments = HybridTranslator().visit_structured_query(query)
    found = store.similarity_search(text, k=100, alpha=1.0, **arguments)
    assert {document.id for document in found} == {i for i, own in zip(IDS, METADATAS, strict=True) if keeps(own)}


def test_dates_of_langchains_parser_are_compared_as_dates(empty: HybridVectorStore) -> None:
    empty.add_texts(["old", "new"], [{"day": date(2020, 1, 1)}, {"day": date(2024, 1, 1)}])
    later = says(Comparator.GT, "day", {"date": "2022-01-01", "type": "date"})
    text, arguments = HybridTranslator().visit_structured_query(StructuredQuery(query="old", filter=later))
    assert [document.page_content for document in empty.similarity_search(text, **arguments)] == ["new"]
