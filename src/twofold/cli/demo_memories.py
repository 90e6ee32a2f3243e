"""What `twofold demo` remembers: the notes of an agent that has worked on three projects for one person.

Rathole is mentioned in five memories, while "project", "codebase" and "architecture" are said all the time about the
other two; some names and error messages are only mentioned in passing. The rankings are whatever the index returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from twofold.documents import Document


@dataclass(frozen=True)
class DemoQuery:
    """A question, and the ids of the memories that a person would want back."""

    text: str
    relevant: frozenset[str]


def _memory(id: str, project: str, type: str, year: int, tags: str, text: str) -> Document:
    return Document(text=text, id=id, metadata={"project": project, "type": type, "tags": tags.split(), "year": year})


MEMORIES = [
    # Rathole: a tunnel for the home lab
    _memory("rathole-overview", "rathole", "note", 2025, "infra tunnel",
            "Rathole project: a reverse tunnel that exposes the home lab. Small Rust codebase, one server on the VPS, "
            "one client behind NAT."),
    _memory("rathole-ports", "rathole", "note", 2025, "infra ports",
            "Rathole listens on port 2333 for clients; 5202 forwards to SSH and 8443 to the Grafana box."),
    _memory("rathole-config", "rathole", "note", 2025, "infra config",
            "The config lives in /etc/rathole/server.toml. Every service block needs its own token, or the client is "
            "rejected with 'handshake failed'."),
    _memory("rathole-noise", "rathole", "decision", 2025, "infra security",
            "Architecture decision for rathole, 3 March 2025: the Noise transport instead of TLS, so there are no "
            "certificates to renew."),
    _memory("rathole-systemd", "rathole", "fix", 2024, "infra ops",
            "rathole.service must start after network-online.target, otherwise the tunnel is down after each reboot."),
    # Cachekit: a caching library
    _memory("cachekit-layers", "cachekit", "note", 2025, "architecture",
            "Architecture of the Cachekit project in three layers: API, policy and store, each in its own package."),
    _memory("cachekit-tour", "cachekit", "note", 2024, "codebase onboarding",
            "New people on the project start with the Cachekit codebase in policy/; the architecture diagram is in "
            "docs/overview.md."),
    _memory("cachekit-adr-7", "cachekit", "decision", 2025, "architecture adr",
            "ADR 7: Cachekit gives up its plugin architecture; two of eleven plugins were used and the whole codebase "
            "paid for all."),
    _memory("cachekit-size", "cachekit", "note", 2024, "codebase metrics",
            "The Cachekit codebase is 14k lines; half of the project is tests."),
    _memory("cachekit-rate", "cachekit", "code", 2025, "api limits",
            "checkRateLimit(userId, bucket) in api/limits.ts reads the counter from the store and throws after 100 "
            "calls a minute."),
    _memory("cachekit-throttle", "cachekit", "note", 2024, "api limits",
            "Customers on the free plan are throttled: too many requests within a minute get a 429 and a Retry-After "
            "header."),
    _memory("cachekit-quota", "cachekit", "decision", 2024, "api billing",
            "Quota checks happen at the gateway in this architecture, not in the services; limits are per organisation "
            "and reset at midnight UTC."),
    _memory("cachekit-evict", "cachekit", "code", 2025, "policy",
            "evictCold() is the oldest code in the project: every 30 s it removes entries that nobody has read for an "
            "hour."),
    _memory("cachekit-typeerror", "cachekit", "bug", 2025, "bug session",
            "Login crashed with TypeError: Cannot read property 'id' of undefined. The session had expired and "
            "getUser returned nothing; fixed by checking the session first."),
    _memory("cachekit-pr-88", "cachekit", "event", 2025, "review",
            "Review of pull request 88 by Marco: two helpers renamed, checkRateLimit moved behind the session check, "
            "the old metrics hook is gone."),
    _memory("cachekit-blank", "cachekit", "event", 2025, "incident",
            "Incident on Friday: the dashboard stayed blank for an hour. The console said TypeError: Cannot read "
            "property 'map' of undefined; the API had sent null for an empty list."),
    _memory("cachekit-readonly", "cachekit", "preference", 2025, "lint",
            "Lint rule: class properties are readonly, and types that are read from JSON are checked first."),
    _memory("cachekit-notfunc", "cachekit", "bug", 2024, "bug imports",
            "TypeError: store.get is not a function came from importing the default export of redis-store."),
    _memory("cachekit-conn", "cachekit", "bug", 2025, "bug redis",
            "ERR_CONN_RESET from Redis under load: the pool was limited to 10 connections, 50 is fine."),
    _memory("cachekit-m032", "cachekit", "event", 2025, "database migration",
            "migration_032 adds the column last_read to cache_entries; it locked the table for four minutes on "
            "12 May 2025."),
    _memory("cachekit-m031", "cachekit", "event", 2025, "database migration",
            "migration_031 drops the unused audit table; it ran in two seconds, no lock was seen."),
    _memory("cachekit-m033", "cachekit", "event", 2025, "database migration",
            "migration_033 renames the column hits to reads and must run while the writers are stopped."),
    _memory("cachekit-lock", "cachekit", "fix", 2025, "database",
            "Schema migrations that lock a large table run at night now, after the outage in May."),
    _memory("cachekit-release", "cachekit", "event", 2025, "release",
            "v1.2.3 of Cachekit went out on 20 June 2025; v1.2.2 was withdrawn because of a memory leak."),
    _memory("cachekit-flaky", "cachekit", "fix", 2024, "tests",
            "Some specs passed or broke depending on the time of day; freezing the clock in the suite settled it."),
    # Litesearch: a search engine in one file
    _memory("litesearch-arch", "litesearch", "note", 2025, "architecture",
            "Litesearch architecture: the index is compiled into one file, and the codebase has no dependencies."),
    _memory("litesearch-review", "litesearch", "event", 2025, "architecture review",
            "Architecture review of the Litesearch project on 9 April 2025: sound, but the segment merger is too "
            "clever."),
    _memory("litesearch-mono", "litesearch", "decision", 2024, "codebase",
            "The project moved to a monorepo: one codebase for the engine, the bindings and the site."),
    _memory("litesearch-style", "litesearch", "note", 2024, "codebase style",
            "Conventions of the Litesearch codebase: no globals, files under 300 lines, architecture notes next to the "
            "code."),
    _memory("litesearch-exec", "litesearch", "code", 2025, "scheduler",
            "executeTask() in the scheduler retries three times with growing pauses and then parks the job in the "
            "dead letter queue."),
    _memory("litesearch-merge", "litesearch", "code", 2025, "segments",
            "mergeSegments keeps the ten newest segments apart, so that writes never wait for a merge."),
    _memory("litesearch-null", "litesearch", "bug", 2025, "bug parser",
            "The query parser failed on empty input with 'property of null' in the log; an early return fixed it."),
    _memory("litesearch-deploy", "litesearch", "note", 2025, "deploy kubernetes",
            "Deploy with kubectl-apply -f k8s/prod.yaml from the CI runner only; by hand it skips the canary."),
    _memory("litesearch-oom", "litesearch", "bug", 2024, "bug memory",
            "The indexer was killed by the kernel on large files: it read them whole. Streaming, as elsewhere in the "
            "codebase, keeps it under 200 MB."),
    _memory("litesearch-bench", "litesearch", "event", 2025, "benchmark",
            "Benchmark of the project on 2 July 2025: a million documents in 41 s, median query 3 ms, p99 19 ms."),
    _memory("litesearch-cjk", "litesearch", "note", 2025, "languages",
            "Japanese and Chinese have no spaces, so Litesearch indexes pairs of characters for them."),
    # The person
    _memory("ana-theme", "personal", "preference", 2025, "editor",
            "Ana wants dark mode everywhere and a large font in the evening, her eyes get tired."),
    _memory("ana-meetings", "personal", "preference", 2025, "calendar",
            "Ana takes no meetings before ten; Friday afternoons are for reading."),
    _memory("ana-answers", "personal", "preference", 2025, "style",
            "Short answers, please: the command first, the reasons after it, and no exclamation marks."),
    _memory("ana-commits", "personal", "preference", 2024, "git",
            "Commit messages in the imperative, at most 60 characters, with the ticket number at the end."),
    _memory("ana-coffee", "personal", "preference", 2025, "food",
            "Ana drinks oat milk only; dairy makes her ill."),
    _memory("ana-oslo", "personal", "event", 2025, "travel",
            "Trip to Oslo from 14 to 18 August 2025, hotel near the opera, back in time for the release."),
    _memory("ana-backup", "personal", "note", 2024, "ops",
            "The laptop is copied to the NAS every night at 02:30; the restore was last tried in November 2024."),
    _memory("pt-reuniao", "personal", "event", 2025, "calendar português",
            "A reunião com o cliente de Lisboa passou para quinta-feira às 15h; levar o contrato assinado."),
    _memory("pt-cache", "cachekit", "note", 2025, "português",
            "O Marco prefere que a documentação do Cachekit em português use “memória temporária” em vez de “cache”."),
    _memory("no-hytte", "personal", "note", 2025, "norsk",
            "Nøkkelen til hytta ligger under den tredje steinen til venstre for døra; husk å skru av vannet."),
]  # fmt: skip

QUERIES = (
    DemoQuery(
        "rathole project codebase architecture",
        frozenset(m.id for m in MEMORIES if m.id and m.metadata["project"] == "rathole"),
    ),
    DemoQuery("checkRateLimit", frozenset({"cachekit-rate", "cachekit-pr-88"})),
    DemoQuery("TypeError: Cannot read property", frozenset({"cachekit-typeerror", "cachekit-blank"})),
    DemoQuery("migration_032", frozenset({"cachekit-m032"})),
    DemoQuery("can she have a cappuccino", frozenset({"ana-coffee"})),
)
