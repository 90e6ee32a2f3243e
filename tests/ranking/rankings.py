"""Generated rankings of two legs, as the engine gives them: best first, each id once."""

from __future__ import annotations

from hypothesis import strategies as st

from twofold.ranking.fusion import Auto, Fusion, Leg, LegName, Scale, Strategy

MEASURED = Auto((0.3, 0.7), True, mean=0.25, spread=0.08, unit=0.1, words=0.7, scale=Scale(0.6, 1.0))
"""The default rule as a search makes it, on the scale of a collection."""
STRATEGIES: dict[str, Strategy] = {
    "rrf": Fusion.rrf(),
    "rrf k 2": Fusion.rrf(k=2),
    "rrf weighted": Fusion.rrf(weights=(0.3, 2.0)),
    "dbsf": Fusion.dbsf(),
    "dbsf weighted": Fusion.dbsf(weights=(2.0, 0.5)),
    "weighted": Fusion.weighted(),
    "average": Fusion.average(),
    "auto": Fusion.auto(),
    "auto 0.3": Fusion.auto(0.3),
    "auto, measured": MEASURED,
}
IDS = [f"d{i:02}" for i in range(12)]


def legs(name: LegName, min_size: int = 0) -> st.SearchStrategy[Leg]:
    """Few different scores, so that ties are common; cosines for the dense leg, BM25 for the other."""
    cosines = st.integers(-20, 100).map(lambda n: n / 100)
    scores = cosines if name == "dense" else st.integers(1, 300).map(lambda n: n / 10)
    hits = st.dictionaries(st.sampled_from(IDS), scores, min_size=min_size)
    ranked = hits.map(lambda found: sorted(found.items(), key=lambda hit: (-hit[1], hit[0])))
    return st.builds(lambda ranking, terms: Leg(name, ranking, terms), ranked, st.integers(1, 5))


dense_legs, lexical_legs = legs("dense"), legs("lexical")
