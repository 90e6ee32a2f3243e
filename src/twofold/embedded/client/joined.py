"""The client of a process that joined the holder of a store: qdrant-client's own, over the holder's socket."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse

from twofold.embedded.optimize import OptimizeProgress, Progress

if TYPE_CHECKING:
    from twofold.embedded.sharing import Folder

_TELL_SECONDS = 0.2


class _Transport(httpx.BaseTransport):
    """What httpx sends by."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        status, body = self._folder.request(request.method, request.url.raw_path.decode("ascii"), request.read())
        return httpx.Response(status, headers={"Content-Type": "application/json"}, content=body)


class JoinedClient(QdrantClient):
    """With what the embedded engine has and a server does by itself."""

    def __init__(self, folder: Folder) -> None:
        # Without a look at the environment, whose proxies would get the requests instead.
        super().__init__(
            url="http://twofold", check_compatibility=False, transport=_Transport(folder), trust_env=False, timeout=None
        )
        self._folder = folder

    def upload_points(self, *args: Any, **kwargs: Any) -> None:
        """From this process: others would not have the way to the holder."""
        super().upload_points(*args, **{**kwargs, "parallel": 1})

    def upload_collection(self, *args: Any, **kwargs: Any) -> None:
        """As `upload_points`."""
        super().upload_collection(*args, **{**kwargs, "parallel": 1})

    def optimize(self, collection_name: str, progress: Progress | None = None) -> bool:
        """Have the holder build the search index; it says when it's done, and `progress` hears that it goes on."""
        began, points = time.monotonic(), self.count(collection_name).count
        answer: Future[bool] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._ask(f"/collections/{quote(collection_name, safe='')}/optimize"))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=ask, name="twofold-optimize", daemon=True).start()
        while not answer.done():
            if progress is not None:
                progress(OptimizeProgress(collection_name, "indexing", points, time.monotonic() - began))
            wait([answer], _TELL_SECONDS)
        if progress is not None and answer.result():
            progress(OptimizeProgress(collection_name, "done", points, time.monotonic() - began))
        return answer.result()

    def flush(self) -> None:
        """Have the holder put on disk what was acknowledged."""
        self._ask("/flush")

    def backup(self, path: str) -> dict[str, int]:
        """Have the holder copy the folder into a new one."""
        copied: dict[str, int] = self._ask("/backup", {"path": str(Path(path).expanduser().absolute())})
        return copied

    def _ask(self, path: str, told: dict[str, str] | None = None) -> Any:
        sent = b"" if told is None else json.dumps(told).encode()
        status, body = self._folder.request("POST", path, sent, wait=True)
        response = httpx.Response(status, content=body)
        if not response.is_success:
            raise UnexpectedResponse.for_response(response)
        return response.json()["result"]
