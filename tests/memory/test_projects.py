"""A user's own memories and those of projects in one view: one search, one ranking, and each stays where it belongs."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.memory.faces import MemoryFace, Opener
from twofold import ConfigError, Memory, MemoryNotFound, as_data
from twofold.testing import HashEmbedding

OWN = [
    "Ada prefers dark roast in the morning.",
    "The tunnel of Ada's home server listens on port 2333.",
    "Ada's dentist is in Oslo.",
    "Her tunnel needs a new certificate in May.",
]
SHARED = [
    "The tunnel of the staging server listens on port 4444.",
    "Apollo is released on Thursdays.",
    "The port of the database is 5432.",
    "Tunnels of Apollo are monitored by Grafana.",
]
QUERIES = ("which port does the tunnel listen on?", "tunnel", "port 2333", "dentist", "released on thursdays")


def name() -> str:
    return f"apollo {uuid.uuid4().hex}"


def texts(found: Any) -> set[str]:
    return {each.text for each in found}


# --- one view -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("_own_words")
def test_both_are_ranked_as_if_they_were_one(open_memory: Opener) -> None:
    project = name()
    ada, all_of_it = open_memory(projects=project), open_memory()
    ada.remember_many(OWN)
    ada.in_project(project).remember_many(SHARED)
    all_of_it.remember_many([*OWN, *SHARED])
    for query in QUERIES:
        here, there = ada.recall(query, 8, min_score=0), all_of_it.recall(query, 8, min_score=0)
        assert [hit.text for hit in here] == [hit.text for hit in there], query
        assert [hit.score for hit in here] == pytest.approx([hit.score for hit in there])
        assert [hit.relevance for hit in here] == pytest.approx([hit.relevance for hit in there])
        assert {hit.text: hit.memory.project for hit in here} == {
            hit.text: project if hit.text in SHARED else None for hit in here
        }
    assert texts(ada.list()) == {*OWN, *SHARED}
    assert ada.stats().memories == 8


def test_a_recall_is_one_request(open_here: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    project = name()
    ada = open_here(projects=[project])
    ada.remember_many(OWN)
    ada.in_project(project).remember_many(SHARED)
    ada.recall("tunnel")
    connection: Any = ada.memory.index._connection
    asked: list[str] = []
    real = connection.call

    def watched(call: Any) -> Any:
        asked.append(call.verb)
        return real(call)

    monkeypatch.setattr(connection, "call", watched)
    ada.recall("which port does the tunnel listen on?")
    assert asked == ["query"]


def test_a_hit_says_where_it_belongs(open_here: Opener) -> None:
    project = name()
    ada = open_here(projects=project)
    ada.remember("Ada's tunnel")
    ada.in_project(project).remember("Apollo's tunnel", tags=["infra"])
    assert f'project="{project}"' in as_data(ada.recall("Apollo's tunnel", k=1))
    result = ada.recall("tunnel infra")
    assert result.tags == ("infra",), "a query can name the project's tags"
    shown = {hit.text: hit.as_metadata(result)["memory"]["project"] for hit in result}
    assert shown == {"Ada's tunnel": None, "Apollo's tunnel": project}


def test_what_callers_call_a_project_is_still_theirs(open_here: Opener) -> None:
    project = name()
    ada = open_here(projects=project)
    ada.remember("a tunnel", metadata={"project": "mine"})
    ada.in_project(project).remember("another tunnel")
    assert texts(ada.recall("tunnel", filter={"project": "mine"})) == {"a tunnel"}
    assert texts(ada.recall("tunnel", filter={"project": project})) == set()


# --- who shares it, and who doesn't -------------------------------------------------------------


def test_all_who_work_on_a_project_share_its_memories_and_nothing_else(open_memory: Opener) -> None:
    project = name()
    ada, bob, eve = open_memory(projects=project), open_memory(projects=[project]), open_memory()
    first = ada.in_project(project).remember("The tunnel listens on 2333", tags=["a"])
    again = bob.in_project(project).remember("The tunnel listens on 2333", tags=["b"])
    assert (again, again.is_new) == (first, False), "the same text is the same memory, whoever says it"
    item = bob.get(first)
    assert (item.tags, item.user, item.project) == (("a", "b"), ada.memory.user, project)
    ada.remember("The tunnel of Ada")
    assert texts(bob.recall("tunnel")) == {"The tunnel listens on 2333"}
    assert bob.recall("tunnel").tags == ()
    for outsider in (eve, open_memory(projects=project.upper()), open_memory(ada.memory.user)):
        assert first not in outsider.recall("tunnel").ids
        assert outsider.get(first) is None
        assert outsider.forget([first]) == 0
        with pytest.raises(MemoryNotFound, match=outsider.memory.user):
            outsider.update(first, text="stolen")
    changed = bob.update(first, text="The tunnel listens on 2444")
    assert (changed.project, changed.user) == (project, ada.memory.user)
    assert ada.get(first).text == "The tunnel listens on 2444"
    assert texts(ada.recall("2444")) >= {"The tunnel listens on 2444"}


def test_a_user_called_like_a_project_sees_nothing_of_it(open_here: Opener) -> None:
    project = name()
    ada = open_here(projects=project)
    kept = ada.in_project(project).remember("The tunnel listens on 2333")
    ada.in_project(project).log("The tunnel is up")
    confusable = [
        project,
        f"project:{project}",
        f"project-memory:{project}",
        f"memory:{project}",
        f"{project}:",
        "None",
    ]
    for user in confusable:
        other = open_here(user)
        assert (len(other.recall("tunnel")), len(other.list()), len(other.logs()), other.get(kept)) == (0, 0, 0, None)
        own = other.remember("The tunnel listens on 2333")
        assert own != kept
        assert other.forget(everything=True) == 1
    for called in confusable:  # and the other way round: a project that is called like a user
        namesake = open_here(called)
        namesake.remember("A tunnel of this user")
        outsider = open_here(projects=called)
        mine = outsider.in_project(called)
        mine.remember("A tunnel of this project")
        assert texts(outsider.recall("tunnel")) <= {"The tunnel listens on 2333", "A tunnel of this project"}
        assert "A tunnel of this user" not in texts(mine.list())
        if called != project:
            assert mine.forget(everything=True) == 1
        assert texts(namesake.list()) == {"A tunnel of this user"}
    assert ada.get(kept) is not None


@pytest.mark.parametrize("projects", ["", " ", [""], [None], 5, {"apollo": 1}, b"apollo", ["x" * 600], ["\ud800"]])
def test_a_project_is_a_name(projects: Any) -> None:
    with pytest.raises(ConfigError, match="project"):
        Memory.open(":memory:", user="ada", projects=projects, dense=HashEmbedding())


def test_a_memory_works_on_its_projects_only(open_here: Opener) -> None:
    ada = open_here(projects=["apollo", "zeus", "apollo"])
    assert ada.memory.projects == ("apollo", "zeus")
    assert (ada.in_project("zeus").memory.projects, ada.in_project("zeus").memory.user) == (("zeus",), ada.memory.user)
    wrongs: list[Any] = ["hermes", "Apollo", ada.memory.user, None]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="does not see a project"):
            ada.memory.in_project(wrong)
    with pytest.raises(ConfigError, match="'zeus'"):
        ada.in_project("zeus").in_project("apollo")
    assert ada.for_user("bob").memory.projects == ()


# --- changing and forgetting --------------------------------------------------------------------


def test_forgetting_stays_with_what_is_named(open_memory: Opener) -> None:
    project = name()
    ada, bob = open_memory(projects=project), open_memory(projects=project)
    own, other = ada.remember("Ada's tunnel", source="wiki"), ada.remember("Ada's cache")
    shared = ada.in_project(project).remember("Apollo's tunnel", source="wiki")
    last = bob.in_project(project).remember("Apollo's cache")
    assert ada.forget(source="wiki") == 1, "her own alone"
    assert (ada.get(own), ada.get(shared) is None) == (None, False)
    assert ada.forget([other, shared]) == 2, "by id, whatever is in reach"
    assert texts(bob.list()) == {"Apollo's cache"}
    assert ada.forget(everything=True) == 0
    assert bob.get(last) is not None
    assert bob.in_project(project).forget(everything=True) == 1
    assert ada.list().items == ()


def test_what_one_owner_has_does_not_replace_what_another_has(open_here: Opener) -> None:
    project = name()
    ada = open_here(projects=project)
    own, shared = ada.remember("Ada deploys on Tuesdays"), ada.in_project(project).remember("Apollo: Tuesdays")
    with pytest.raises(MemoryNotFound):
        ada.remember("Thursdays", supersedes=shared)
    with pytest.raises(MemoryNotFound, match=f"of project '{project}'"):
        ada.in_project(project).remember("Thursdays", supersedes=own)
    newer = ada.in_project(project).remember("Apollo: Thursdays", supersedes=shared)
    assert shared not in ada.recall("Tuesdays").ids
    assert ada.forget(newer) == 1
    assert shared in ada.recall("Tuesdays").ids, "what it had replaced is there again"


def test_near_duplicates_are_named_wherever_they_belong(open_here: Opener) -> None:
    project = name()
    ada = open_here(projects=project)
    shared = ada.in_project(project).remember("Deploys happen on Tuesdays.")
    assert [each.id for each in ada.remember("Deploys happen on Tuesdays").similar] == [shared]
    other = open_here(projects=project)
    assert other.in_project(project).remember("Deploys happen on Tuesdays!").similar
    assert open_here().remember("Deploys happen on Tuesdays").similar == ()


def test_a_conversation_of_a_project_is_one_whoever_speaks(open_memory: Opener) -> None:
    project = name()
    ada, bob = open_memory(projects=project), open_memory(projects=project)
    first = ada.in_project(project).remember_turns(["the tunnel is down", "since when?"], session="standup")
    second = bob.in_project(project).remember_turns(["since noon"], session="standup")
    around = ada.around(second[0])
    assert [turn.text for turn in around] == ["the tunnel is down", "since when?", "since noon"]
    assert [turn.order for turn in around] == [0, 1, 2]
    assert bob.forget(first[0]) == 1
    assert [turn.text for turn in ada.around(second[0])] == ["since when?", "since noon"]


def test_recalls_are_counted_where_they_belong(open_memory: Opener) -> None:
    project = name()
    ada, bob = open_memory(projects=project), open_memory(projects=project)
    own, shared = ada.remember("Ada's tunnel"), ada.in_project(project).remember("Apollo's tunnel")
    for memory in (ada, bob):
        memory.recall("tunnel")
        memory.flush()
    assert (ada.get(own).access_count, ada.get(shared).access_count) == (1, 2)


def test_what_lacks_a_vector_is_mended_in_reach(open_here: Opener) -> None:
    project = name()
    ada = open_here(projects=project)
    ids = [ada.remember("Ada's tunnel"), ada.in_project(project).remember("Apollo's tunnel")]
    ada.raw._call("delete_vectors", vectors=["bm25"], points=[str(each) for each in ids])
    assert open_here().backfill() == 0
    assert ada.backfill() == 2
    assert ada.stats().without_words == 0


def test_logs_knowledge_and_feedback_know_projects(open_here: Opener) -> None:
    project = name()
    ada, bob = open_here(projects=project), open_here(projects=project)
    ada.log("went home")
    ada.in_project(project).log("deployed")
    assert [line.text for line in ada.logs()] == ["deployed", "went home"]
    assert texts(bob.logs("deployed")) == {"deployed"}
    ada.knowledge().in_project(project).remember("kubectl apply creates resources")
    assert texts(bob.knowledge().recall("kubectl")) == {"kubectl apply creates resources"}
    shared, _ = ada.in_project(project).remember_many(["Apollo's tunnel", "A tunnel by Boring"])
    ada.feedback("tunnel", shared)
    assert (ada.stats().judgements, bob.stats().judgements) == (1, 0), "what ada likes is hers"
    (pair,) = ada.judged()
    assert shared in ada.memory.index.search("tunnel", filter=pair.filter).ids
    assert ada.learn() is not None
    assert "learned" in ada.recall("tunnel").alpha_reason
    assert "learned" not in bob.recall("tunnel").alpha_reason


def test_a_folder_keeps_projects_apart(tmp_path: Path) -> None:
    with Memory.open(tmp_path, user="ada", projects="apollo", dense=HashEmbedding()) as ada:
        ada.remember("Ada's tunnel")
        ada.in_project("apollo").remember("Apollo's tunnel")
    with Memory.open(tmp_path, user="bob", projects=["apollo"], dense=HashEmbedding()) as bob:
        assert texts(bob.recall("tunnel")) == {"Apollo's tunnel"}
        assert repr(bob).startswith("<Memory of 'bob' and project 'apollo' in ")
        assert texts(bob.for_user("apollo").recall("tunnel")) == set()


# --- the general memories of an agent's session -------------------------------------------------


def views(memory: MemoryFace, project: str) -> dict[str, MemoryFace]:
    user = memory.memory.user
    return {
        "general": memory.for_user(user),
        "coder": memory.for_user(user, agent="coder"),
        "coder today": memory.for_user(user, agent="coder", session="today"),
        "coder yesterday": memory.for_user(user, agent="coder", session="yesterday"),
        "writer": memory.for_user(user, agent="writer"),
        "project": memory.for_user(user, projects=project).in_project(project),
    }


def test_an_agents_session_sees_general_memories_if_it_is_asked_to(open_memory: Opener) -> None:
    memory, project = open_memory(), name()
    places = views(memory, project)
    ids = {where: view.remember(f"The tunnel as {where} knows it") for where, view in places.items()}
    open_memory().remember("The tunnel as somebody else knows it")
    user = memory.memory.user
    wide = memory.for_user(user, agent="coder", session="today", general=True, projects=project)
    seen = {"general", "coder", "coder today", "project"}
    assert set(wide.recall("tunnel", 20).ids) == {ids[where] for where in seen}
    assert {item.id for item in wide.list()} == {ids[where] for where in seen}
    assert {where for where in ids if wide.get(ids[where])} == seen
    assert set(places["coder today"].recall("tunnel").ids) == {ids["coder today"]}, "unless it asks for them"
    assert wide.update(ids["general"], text="The tunnel, corrected").agent is None, "it stays general"
    newer = wide.remember("The tunnel anew", supersedes=ids["coder"])
    assert (wide.get(newer).agent, wide.get(newer).session) == ("coder", "today"), "it writes where it is"
    assert places["coder"].get(ids["coder"]).superseded_by == newer
    assert places["coder today"].forget(newer) == 1
    assert places["coder"].get(ids["coder"]).superseded_by is None, "what it had replaced is there again"
    assert wide.forget([ids["writer"], ids["coder yesterday"]]) == 0
    assert wide.forget(everything=True) == 1, "its own alone"
    assert wide.forget([ids["general"]]) == 1
    assert places["writer"].get(ids["writer"]) is not None


def test_general_memories_can_be_switched_on_and_off(open_here: Opener) -> None:
    memory = open_here()
    memory.remember("The tunnel of Ada")
    coder = memory.for_user(memory.memory.user, agent="coder").memory
    assert texts(coder.recall("tunnel")) == set()
    assert texts(coder.with_general().recall("tunnel")) == {"The tunnel of Ada"}
    assert texts(coder.with_general().with_general(False).recall("tunnel")) == set()
    assert coder.with_general().agent == "coder"
    coder.remember("Another tunnel", tags=["brandnew"])
    assert coder.with_general().recall("brandnew").tags == ("brandnew",), "what is written is known to every view"
