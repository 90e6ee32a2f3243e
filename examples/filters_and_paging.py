"""Limit a search by metadata, and walk through its pages."""

from collections.abc import Iterator
from datetime import date, timedelta

from twofold import Document, HybridIndex

LEVELS = ("info", "warning", "error")


def log_entries() -> Iterator[Document]:
    for number in range(60):
        service = "proxy" if number % 2 else "billing"
        yield Document(
            f"{service}: request {number} took {number * 7 % 50} ms",
            id=f"entry-{number:02}",
            metadata={
                "service": service,
                "level": LEVELS[number % 3],
                "day": date(2025, 1, 1) + timedelta(days=number),
                "tags": ["slow"] if number * 7 % 50 > 40 else [],
            },
        )


with HybridIndex.open(":memory:") as index:
    index.add(log_entries())

    february = {"day": {"gte": "2025-02-01", "lt": "2025-03-01"}}
    troubled = {"or": [{"level": "error"}, {"tags": "slow"}]}
    print("all, in February, of those troubled:", index.count(), index.count(february), end=" ")
    print(index.count({"and": [february, troubled]}))

    seen: list[str] = []
    while page := index.search("request of the proxy", k=8, offset=len(seen), filter={"service": "proxy"}):
        seen += page.ids
        print(f"page of {len(page)}: {page[0].id} … {page[-1].id}")
    print(f"{len(seen)} hits, each once: {len(set(seen)) == len(seen)}")

    print("deleted:", index.delete(filter={"day": {"lt": "2025-02-01"}}), "left:", index.count())
