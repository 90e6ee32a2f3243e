"""Vectors, checked against the collection's schema."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.errors import BadRequest

_F32_MAX = 3.4028234e38
_INDEX_MAX = 2**32 - 1
# No vector of numbers up to this one is too long for 32 bits.
FITS_SINGLE = 1e18
FITS_HALF = 65_504.0


@dataclass(frozen=True)
class DenseField:
    """What a dense vector must look like."""

    size: int
    multi: bool
    fits: float = FITS_SINGLE  # numbers up to this one can be stored without a closer look


@dataclass(frozen=True)
class VectorSchema:
    """The vectors of one collection by name; "" is the unnamed one."""

    dense: dict[str, DenseField]
    sparse: frozenset[str]

    def names(self) -> list[str]:
        return sorted([*self.dense, *self.sparse])

    def check_name(self, name: str) -> str:
        if name not in self.dense and name not in self.sparse:
            known = ", ".join(repr(known) for known in self.names()) or "none"
            hint = "pass using=… with one of them" if name == "" else "create it with create_vector_name(…)"
            raise BadRequest(f"Not existing vector name error: {name!r}. The collection has {known}: {hint}.")
        return name

    def struct(self, vector: Any) -> Any:
        """The vectors of a point: a mapping by name, or the unnamed vector."""
        if type(vector) is dict or isinstance(vector, Mapping):
            return {name: self._stored(name, value) for name, value in vector.items()}
        return {"": self._stored("", vector)}

    def structs(self, vectors: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The named vectors of many points. Arrays of one name are looked at together, which is quicker."""
        rows = {
            name
            for name, field in self.dense.items()
            if _are_rows([named[name] for named in vectors if name in named], field)
        }
        return [
            {name: value.data if name in rows else self._stored(name, value) for name, value in named.items()}
            for named in vectors
        ]

    def _stored(self, name: str, value: Any) -> Any:
        field = self.dense.get(name)
        if field is not None and _are_rows([value], field):
            # Quicker than a list, which needs an object for every number. The array itself is read slowly.
            return value.data
        return self.named(name, value)

    def named(self, name: str, value: Any) -> Any:
        """One vector of the named field."""
        field = self.dense.get(name)
        if field is not None:
            return _multi(name, value, field) if field.multi else _dense(name, value, field)
        self.check_name(name)
        return _sparse(name, value)

    def query(self, name: str, value: Any) -> Any:
        """A vector to search with: as `named`, but a multi-vector field also takes a single vector."""
        field = self.dense.get(name)
        if field is not None and field.multi and not _nested(value):
            return [_dense(name, value, field)]
        return self.named(name, value)


def _nested(value: Any) -> bool:
    return bool(len(value)) and hasattr(value[0], "__len__")


def _plain(name: str, value: Any) -> list[Any]:
    """A list: the engine reads those ten times faster than numpy arrays."""
    if type(value) is list:
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise BadRequest(
            f"Vector {name!r} must be a list of numbers, not {type(value).__name__}"
            + (": text and images need an encoder first." if isinstance(value, models.Document) else ".")
        )
    return list(value)


def _dense(name: str, value: Any, field: DenseField) -> list[float]:
    numbers = _plain(name, value)
    if len(numbers) != field.size:
        raise BadRequest(
            f"Vector dimension error: vector {name!r} expected dim: {field.size}, got {len(numbers)}. Encode with "
            "the model the collection was made for."
        )
    _finite(name, numbers)
    if field.fits == FITS_HALF and max(map(abs, numbers)) > FITS_HALF:
        raise BadRequest(f"Vector {name!r} holds a number too large for 16-bit floats: scale it, or store 32 bits.")
    return numbers


def _are_rows(values: list[Any], field: DenseField) -> bool:
    """What models make: so many 32-bit floats, none of them NaN or infinite. Anything else gets a closer look."""
    if not values or field.multi or not all(_is_row(value, field.size) for value in values):
        return False
    return bool(np.abs(np.concatenate(values)).max() <= field.fits)


def _is_row(value: Any, size: int) -> bool:
    return (
        type(value) is np.ndarray
        and value.dtype == np.float32
        and value.shape == (size,)
        and bool(value.flags.c_contiguous)
    )


def _finite(name: str, numbers: list[float]) -> None:
    try:
        # The length is NaN or inf as soon as one number is: one C call instead of a Python loop.
        length = math.hypot(*numbers)
    except TypeError:
        raise BadRequest(f"Vector {name!r} must hold numbers only.") from None
    if not length <= _F32_MAX:
        raise BadRequest(f"Vector {name!r} holds NaN, infinity or a number too large for 32-bit floats.")


def _multi(name: str, value: Any, field: DenseField) -> list[list[float]]:
    rows = _plain(name, value)
    if not rows:
        raise BadRequest(f"Multi-vector {name!r} must hold at least one vector.")
    return [_dense(name, row, field) for row in rows]


def _sparse(name: str, value: Any) -> edge.SparseVector:
    if not (hasattr(value, "indices") and hasattr(value, "values")):
        if not isinstance(value, Mapping):
            raise BadRequest(f"Vector {name!r} is sparse: pass a SparseVector(indices, values).")
        value = models.SparseVector(**value)
    indices, values = _list(value.indices), _list(value.values)
    if len(indices) != len(values):
        raise BadRequest(f"Sparse vector {name!r}: {len(indices)} indices but {len(values)} values.")
    _finite(name, values)
    if not all(map(lt, indices, islice(indices, 1, None))):  # most are in order, each once
        indices, values = _in_order(name, indices, values)
    if indices and not (indices[0] >= 0 and indices[-1] <= _INDEX_MAX):
        raise BadRequest(f"Sparse vector {name!r}: indices must be from 0 to 2**32 - 1.")
    return edge.SparseVector(indices, values)


def _list(values: Any) -> list[Any]:
    return values if type(values) is list else list(values)


def _in_order(name: str, indices: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    pairs = dict(zip(indices, values, strict=True))
    if len(pairs) != len(indices):
        raise BadRequest(f"Sparse vector {name!r} names an index twice: add up its values first.")
    ordered = sorted(indices)
    return ordered, [pairs[index] for index in ordered]
