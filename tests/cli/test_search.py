from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.cli.runs import run
from twofold import Document, HybridIndex, IndexInfo

FILMS = [
    Document("Blade Runner: replicants hunted in a rainy city", "blade", {"year": 1982, "tags": ["noir", "film"]}),
    Document("The Matrix: a hacker learns that the world is simulated", "matrix", {"year": 1999}),
    Document("Interstellar: through a wormhole to save mankind", "inter", {"year": 2014, "by": {"name": "Nolan"}}),
    Document("checkRateLimit throttles callers", "code", {}),
    Document("\x1b[2Jwiped\x07 \u202escreen\nby escape codes", "evil\x1b[31m", {"k\x1b": "v\x1b[0m"}),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("films") / "index"
    with HybridIndex.open(folder) as opened:
        opened.add(FILMS)
    return str(folder)


def test_the_table_shows_rank_relevance_text_id_and_metadata(index: str) -> None:
    answer = run("search", "replicants", "-l", index, "-k", 2)
    assert answer.code == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0] == "2 hits for “replicants” (hybrid)"
    assert all(len(line) <= 80 for line in lines)
    hit = next(line for line in lines if line.startswith("1 "))
    assert "█" in hit
    assert "Blade Runner" in hit
    assert "blade  year=1982  tags=noir,film" in answer.out
    assert "\x1b" not in answer.out


def test_json_is_one_object_with_the_documented_keys(index: str) -> None:
    found = run("search", "replicants", "-l", index, "-k", 2, "--json").json
    assert list(found) == ["query", "mode", "degraded", "corrections", "offset", "count", "hits"]
    assert list(found["hits"][0]) == ["rank", "id", "text", "score", "relevance", "metadata", "explanation", "title"]
    assert found["hits"][0]["id"] == "blade"
    assert found["hits"][0]["explanation"] is None
    assert (found["query"], found["mode"], found["degraded"], found["count"]) == ("replicants", "hybrid", None, 2)


def test_the_command_line_ranks_as_the_library_does(index: str) -> None:
    with HybridIndex.open(index) as opened:
        expected = opened.search("a simulated world", explain=True)
    found = run("search", "a simulated world", "-l", index, "--json", "--explain").json
    assert [hit["id"] for hit in found["hits"]] == expected.ids
    assert [hit["score"] for hit in found["hits"]] == [hit.score for hit in expected]
    first = expected[0].explanation
    assert first is not None
    assert found["hits"][0]["explanation"]["semantic_score"] == first.semantic_score
    assert found["hits"][0]["explanation"]["matched_words"] == list(first.matched_words)


def test_explain_shows_both_legs(index: str) -> None:
    out = run("search", "checkRateLimit", "-l", index, "-k", 2, "--explain").out
    assert "meaning #1   cosine" in out
    assert "words   #1   BM25" in out
    assert "checkRateLimit" in out
    assert "not found by this leg" in out


def test_offset_continues_the_ranking(index: str) -> None:
    whole = run("search", "film", "-l", index, "--json").json["hits"]
    page = run("search", "film", "-l", index, "-k", 2, "--offset", 2, "--json").json
    assert page["hits"] == whole[2:4]
    assert [hit["rank"] for hit in page["hits"]] == [3, 4]
    assert run("search", "film", "-l", index, "-k", 2, "--offset", 2).out.startswith("3–4 hits for “film”")


def test_filter_alpha_and_min_score_reach_the_index(index: str) -> None:
    recent = run("search", "film", "-l", index, "--json", "--filter", '{"year": {"gte": 1999}}').json
    assert {hit["id"] for hit in recent["hits"]} == {"matrix", "inter"}
    words = run("search", "wormhole", "-l", index, "--json", "--alpha", 0, "--fusion", "rrf").json
    assert (words["mode"], [hit["id"] for hit in words["hits"]]) == ("lexical", ["inter"])
    assert run("search", "wormhole", "-l", index, "--json", "--min-score", 0.99).json["hits"] == []


def test_no_hits_are_said_plainly(index: str) -> None:
    answer = run("search", "wormhole", "-l", index, "--min-score", 0.99)
    assert answer.code == 0
    assert answer.out == "nothing found for “wormhole” (hybrid)\n"


def test_doing_less_than_asked_is_shown_once(index: str) -> None:
    answer = run("search", "the", "-l", index, "--alpha", 0)
    assert "(dense)" in answer.out
    assert answer.out.count("has no word") == 1
    assert answer.err == ""
    found = run("search", "the", "-l", index, "--alpha", 0, "--json")
    assert "has no word" in found.json["degraded"]


def test_stored_control_codes_never_reach_the_terminal(index: str) -> None:
    out = run("search", "wiped screen", "-l", index, "-k", 1).out
    assert "wiped" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--filter", "{year: 3}"], "--filter is not JSON"),
        (["--filter", "[1]"], "--filter must be a JSON object"),
        (["--filter", '{"year": {"near": 3}}'], "near"),
        (["--alpha", "2"], "alpha must be between 0"),
        (["--fusion", "magic"], "unknown fusion 'magic'"),
        (["-l", ":memory:"], "gone when the command ends"),
        (["--model", "no/such-model"], "no/such-model"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(index: str, words: list[str], message: str) -> None:
    answer = run("search", "film", "-l", index, "--json", *words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


@pytest.mark.parametrize("command", [["search", "film"], ["info"]])
def test_looking_where_nothing_is_creates_nothing(tmp_path: Path, command: list[str]) -> None:
    answer = run(*command, "-l", tmp_path / "no where")
    assert answer.code == 2
    assert f"twofold add notes.md --location '{tmp_path}/no where'" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_collection_that_is_not_there_is_not_made(index: str) -> None:
    for _ in range(2):
        answer = run("search", "film", "-l", index, "-c", "other")
        assert answer.code == 2
        assert f"twofold add notes.md --location {index} --collection other" in answer.err


def test_an_empty_collection_says_how_to_fill_it(index: str) -> None:
    HybridIndex.open(index, "empty").close()
    answer = run("search", "film", "-l", index, "-c", "empty")
    assert answer.code == 0
    assert "holds nothing yet" in answer.out
    assert f"twofold add notes.md --location {index} --collection empty" in answer.out


def test_the_environment_names_location_and_collection(index: str) -> None:
    env = {"TWOFOLD_LOCATION": index, "TWOFOLD_COLLECTION": "twofold", "TWOFOLD_API_KEY": "not for a folder"}
    assert run("search", "film", "--json", env=env).json["count"] == 5
    assert run("info", "--json", env=env).json["documents"] == 5


def test_info_counts(index: str) -> None:
    answer = run("info", "-l", index)
    assert answer.code == 0
    told = dict(line.split(maxsplit=1) for line in answer.out.splitlines())
    assert told["documents"].strip() == "5"
    assert "all-MiniLM-L6-v2-int8" in answer.out
    assert "language english" in answer.out


def test_warnings_of_the_package_are_one_line_each(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    info = HybridIndex.info

    def warn(self: HybridIndex) -> IndexInfo:
        logging.getLogger("twofold").warning("mind the %s\nplease", "gap")
        return info(self)

    monkeypatch.setattr(HybridIndex, "info", warn)
    answer = run("info", "-l", index, "--json")
    assert answer.err == "warning: mind the gap please\n"
    assert json.loads(answer.out)["documents"] == 5
    assert logging.getLogger("twofold").handlers == []


def test_interrupting_is_quiet(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: HybridIndex) -> IndexInfo:
        raise KeyboardInterrupt

    monkeypatch.setattr(HybridIndex, "info", interrupted)
    answer = run("info", "-l", index)
    assert (answer.code, answer.out, answer.err) == (130, "", "")
