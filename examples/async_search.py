"""Several searches at once, without blocking the event loop."""

import asyncio

from twofold import HybridIndex

MEMORIES = [
    "Deploys happen on Tuesdays, never on Fridays.",
    "The staging database is restored from production every night.",
    "kubectl-apply fails when the service account has expired.",
    "Ana reviews everything that touches billing.",
]
QUESTIONS = ("when do we deploy?", "kubectl-apply", "who looks at invoices?")


async def main() -> None:
    async with await HybridIndex.aopen(":memory:") as index:
        await index.aadd(MEMORIES)
        results = await asyncio.gather(*(index.asearch(question, k=1) for question in QUESTIONS))
        for question, result in zip(QUESTIONS, results, strict=True):
            print(f"{question:24} {result[0].text}")


asyncio.run(main())
