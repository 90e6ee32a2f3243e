"""Why is this hit first? Both legs side by side, for every strategy."""

from twofold import Explanation, HybridIndex

TEXTS = [
    "Review of pull request 88: checkRateLimit moved behind the session check.",
    "Clients that send too many requests are slowed down before they are refused.",
    "The quota job resets every counter at midnight.",
    "Throttling was discussed at length, and nothing was decided.",
]


def leg(name: str, score: float | None, rank: int | None, part: float) -> str:
    return f"  {name:8} not found" if score is None else f"  {name:8} raw {score:5.2f}  rank {rank}  adds {part:.3f}"


def show(why: Explanation) -> None:
    print(leg("meaning", why.semantic_score, why.semantic_rank, why.semantic_part))
    print(leg("words", why.lexical_score, why.lexical_rank, why.lexical_part), *why.matched_words)


with HybridIndex.open(":memory:") as index:
    index.add(TEXTS)
    for fusion in ("auto", "rrf", "dbsf", "weighted", "average"):
        hit = index.search("where is checkRateLimit called?", k=1, fusion=fusion, explain=True)[0]
        print(f"{fusion}: {hit.score:.3f} (relevance {hit.relevance:.2f})  {hit.text}")
        if hit.explanation is not None:
            show(hit.explanation)

    unrelated = index.search("zebra migration in Kenya", min_score=0.5)
    print(f"an unrelated question finds {len(unrelated)} texts that are likely an answer")
