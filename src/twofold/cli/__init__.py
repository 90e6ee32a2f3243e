"""The command line: `twofold demo`, `add`, `search`, `info`."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from twofold.cli.app import app

        app(prog_name="twofold")
    except KeyboardInterrupt:  # before a command has begun
        raise SystemExit(130) from None
