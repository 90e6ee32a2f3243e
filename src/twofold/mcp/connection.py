"""Connections on which a request doesn't come in are closed: uvicorn itself would wait for ever."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(seconds: float) -> type[H11Protocol]:
    """The HTTP of uvicorn, which waits for the whole of a request no longer than this."""

    class Patient(H11Protocol):
        waiting: asyncio.TimerHandle | None = None
        waiting_for: object = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.wait(None)

        def watch(self) -> None:
            """Begin to wait where something is missing that wasn't waited for yet: more bytes win no more time."""
            missing = self.conn.their_state if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) else None
            if missing is not self.waiting_for:
                self.wait(missing)

        def wait(self, missing: object) -> None:
            if self.waiting is not None:
                self.waiting.cancel()
            # The application answers in good time where a body is missing. This is for all others that don't.
            delay = seconds if missing is h11.IDLE else 2 * seconds
            self.waiting_for = missing
            self.waiting = None if missing is None else self.loop.call_later(delay, self.transport.close)

    return Patient
