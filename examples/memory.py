"""An agent's memory: store, recall with reasons, replace, keep users apart, write into a prompt."""

from twofold import Memory, as_data

PROJECTS: list[dict[str, object]] = [
    {"text": "Rathole tunnel: the server listens on port 2333 behind nginx.", "tags": ["rathole", "infra"]},
    {"text": "Heartbeats every 30 seconds keep the tunnel open.", "tags": ["rathole"]},
    {"text": "The codebase of Litesearch has a layered architecture.", "tags": ["litesearch"]},
    {"text": "Ana drinks oat milk only; dairy makes her ill.", "type": "preference"},
]
QUESTIONS = ("rathole project codebase architecture", "can Ana have a cappuccino?", "guitar chords for beginners")

with Memory.open("./example-memories", user="ada") as memory:
    memory.remember_many(PROJECTS)  # running this again refreshes them, it doesn't double them

    for question in QUESTIONS:
        result = memory.recall(question, k=2, explain=True)
        print(f"{question}: {len(result)} found")
        for hit in result:
            print(f"  {hit.text}\n    {hit.explanation}")

    old = memory.remember("The release is on Tuesday.")
    memory.remember("The release moved to Thursday.", supersedes=old)
    print("when is the release?", [hit.text for hit in memory.recall("when is the release?")])

    print("bob knows", memory.for_user("bob").recall("rathole").ids)
    print(as_data(memory.recall("rathole port", k=1)))
