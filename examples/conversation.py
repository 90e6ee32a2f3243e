"""A conversation that is remembered turn by turn, and what an assistant would look up before it answers."""

from datetime import datetime, timedelta, timezone

from twofold import Memory, Turn

START = datetime(2026, 2, 21, 18, 0, tzinfo=timezone.utc)
SAID = [
    ("Ada", "Shall we take the train to Porto or drive?"),
    ("Ben", "Train. And which hotel?"),
    ("Ada", "The blue one by the river."),
    ("Ben", "Booked it for Friday, two nights."),
    ("Ada", "Great. My laptop battery is dying, by the way."),
    ("Ben", "Take mine along, I don't need it on the trip."),
]
QUESTIONS = ("which hotel did they choose?", "how do they travel to Porto?", "what about the laptop?")

turns = [Turn(text, speaker, START + timedelta(minutes=n)) for n, (speaker, text) in enumerate(SAID)]

with Memory.open(":memory:", user="ada") as memory:
    memory.remember_turns(turns[:4], session="porto")
    memory.remember_turns(turns, session="porto")  # the first four carry their time, and are not stored twice
    print(f"{memory.stats().memories} turns")

    for question in QUESTIONS:
        best = memory.recall(question, k=1)[0]
        print(f"\n{question}")
        for turn in memory.around(best.id, before=1, after=1):
            mark = ">" if turn.id == best.id else " "
            print(f" {mark} {turn.speaker}: {turn.text}")

    memory.log("Ada and Ben go to Porto on Friday.", created=START)
    print("\nlogged:", [line.text for line in memory.logs(day="2026-02-21")])
