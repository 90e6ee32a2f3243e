"""A small corpus with all kinds of metadata, and twenty queries for it."""

from __future__ import annotations

from twofold import Document

_ABOUT = [
    "checkRateLimit rejects a client after 100 requests a minute",
    "Clients that send too much are slowed down before they are refused",
    "ERR_CONN_RESET appears when the proxy closes idle connections",
    "The office coffee machine is cleaned on Fridays",
    "Rathole tunnels listen on port 2333",
    "migration_032 adds the column last_seen to users",
    "Backups run at two in the morning and are kept for a month",
    "The release branch is cut on the first Monday of the month",
    "Ada prefers tea to coffee, and mornings to evenings",
    "The staging cluster has three nodes and no GPU",
    "Feature flags live in flags.yaml and are read at start",
    "Invoices are numbered by year and a running number",
]
DOCUMENTS = [
    Document(text, f"doc {number}", {"year": 2020 + number % 4, "tags": ["ops"] if number % 3 else ["office", "ops"]})
    for number, text in enumerate(_ABOUT)
]
QUERIES = [
    "checkRateLimit", "how many requests may a client send", "ERR_CONN_RESET", "who cleans the machine", "tunnel",
    "rathole port", "migration 032", "last_seen", "when do backups run", "release day", "what does Ada drink", "GPU",
    "nodes of the staging cluster", "flags.yaml", "invoice numbers", "idle proxy connections", "first Monday", "tea",
    "zebra migration in Kenya", "month",
]  # fmt: skip
