"""Store a few notes in a folder, find them by meaning and by words."""

from twofold import Document, HybridIndex

NOTES = [
    Document("checkRateLimit() rejects a client after 100 requests a minute.", id="rate", metadata={"project": "api"}),
    Document("Rathole tunnels listen on port 2333.", id="tunnel", metadata={"project": "homelab"}),
    Document("ERR_CONN_RESET appears when the proxy closes idle connections.", id="reset", metadata={"project": "api"}),
    Document("Ana drinks oat milk only; dairy makes her ill.", id="ana"),
]
QUESTIONS = ("checkRateLimit", "why does the line go dead?", "can Ana have a cappuccino?", "rathole port")

with HybridIndex.open("./example-index") as index:
    index.add(NOTES)  # running this again replaces the notes, it doesn't double them
    for question in QUESTIONS:
        best = index.search(question, k=1)[0]
        print(f"{question:28} {best.relevance:.2f}  {best.text}")
