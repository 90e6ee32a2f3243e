"""What the method groups share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from qdrant_client import models
from qdrant_client.client_base import QdrantBase

from twofold.embedded.errors import BadRequest, EmbeddedError
from twofold.embedded.store import Store

F = TypeVar("F", bound=Callable[..., Any])


class StoreApi(QdrantBase):
    """Holds the store the methods work on.

    `wait`, `ordering`, `consistency` and `timeout` are accepted and mean nothing: every call waits, there
    is one replica, and a call in-process can't be lost on the way.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._released = False

    @property
    def store(self) -> Store:
        """The store, until this client is closed: others may have it open still."""
        if self._released:
            raise self._store.closed_error()
        return self._store


def request(method: F) -> F:
    """A public method: refuses shard keys; the engine's ValueErrors (a bad JSON path) become BadRequest."""

    @functools.wraps(method)
    def checked(self: StoreApi, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("shard_key_selector") is not None:
            refuse_shard_key()
        try:
            return method(self, *args, **kwargs)
        except EmbeddedError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise BadRequest(str(error)) from error

    return cast(F, checked)


def refuse_shard_key() -> None:
    """Ignoring a shard key would mix what its user keeps apart."""
    raise NotImplementedError(
        "The embedded engine has no shard keys: keep tenants apart with a payload field, a keyword index "
        "with is_tenant=True and a filter, or use a Qdrant cluster."
    )


def completed(operation: int) -> models.UpdateResult:
    return models.UpdateResult.model_construct(operation_id=operation, status=models.UpdateStatus.COMPLETED)
