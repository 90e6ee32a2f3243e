"""How candidates become a ranking. Plain values in and out: no client, no clock, no mutation."""
