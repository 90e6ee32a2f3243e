"""What a collection is: its settings on disk, the engine's form of them, and what its vectors must look like.

The settings are one versioned JSON file that is replaced as a whole. It also names the directory of the live shard, so
replacing it is the one moment at which a rebuilt shard takes the place of the old one.

`config` in it is the body of Qdrant's REST request that makes a collection (`vectors`, `sparse_vectors`, `hnsw_config`,
`metadata` …) and `indexes` maps a payload field to the `field_schema` of the request that indexes it, both as plain
JSON: no version of qdrant-client has a say in what is on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from enum import Enum
from functools import cache, partial
from itertools import islice
from operator import lt
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import qdrant_edge as edge

from .errors import BadRequest
from .lock import read_versioned, write_versioned

SETTINGS_FILE = "collection.json"
# The server's own defaults; the engine wants them spelt out.
HNSW_DEFAULTS = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000, "max_indexing_threads": 0}

_PLACEHOLDER_VECTOR = "twofold-none"
_MAX_VECTOR_SIZE = 65_536
_MAX_VECTOR_NAME_BYTES = 200
_MAX_FLOAT32 = 3.4028234e38
_MAX_SPARSE_INDEX = 2**32 - 1
# No vector of numbers up to this one is too long for 32 bits.
_MAX_SINGLE = 1e18
_MAX_HALF = 65_504.0

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """A collection's settings; change them with `dataclasses.replace` and `save`."""

    name: str
    config: Config
    indexes: Mapping[str, Any] = field(default_factory=dict)
    shard: str = "shard-1"
    wal: bool = True
    optimized_points: int = 0
    written_points: int = 0  # since then, the same one twice counted twice
    created_at: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def save(self, directory: Path) -> None:
        """Replace the settings file."""
        write_versioned(directory / SETTINGS_FILE, vars(self))

    def with_config(self, **changes: Any) -> Settings:
        """The settings with other values for some keys of `config`."""
        return replace(self, config={**self.config, **changes})

    def dense_vectors(self) -> dict[str, Config]:
        """Parameters of the dense vectors by name, those of the unnamed vector as ""."""
        vectors = self.config.get("vectors") or {}
        unnamed = isinstance(vectors.get("size"), int)  # and not the parameters of a vector that is called so
        return {"": vectors} if unnamed else dict(vectors)

    def sparse_vectors(self) -> dict[str, Config]:
        """Parameters of the sparse vectors by name."""
        return dict(self.config.get("sparse_vectors") or {})

    def check(self) -> None:
        """Refuse vectors that the engine would accept and later stumble over."""
        dense = self.dense_vectors()
        for name, params in dense.items():
            if name:
                check_vector_name(name)
            if not 1 <= params["size"] <= _MAX_VECTOR_SIZE:
                raise BadRequest(f"Vector size {params['size']} is invalid. Must be from 1 to {_MAX_VECTOR_SIZE}.")
        for name in self.sparse_vectors():
            check_vector_name(name)
            if name in dense:
                raise BadRequest(f"Vector {name!r} can't be both dense and sparse.")

    def schema(self) -> VectorSchema:
        """What the vectors must look like."""
        dense = {}
        for name, params in self.dense_vectors().items():
            # Cosine vectors have length 1 by the time they are stored.
            half = params.get("datatype") == "float16" and params["distance"] != "Cosine"
            multi = params.get("multivector_config") is not None
            dense[name] = DenseField(params["size"], multi, _MAX_HALF if half else _MAX_SINGLE)
        return VectorSchema(dense, frozenset(self.sparse_vectors()))

    def to_edge(self, threads: int = 1) -> edge.EdgeConfig:
        """The settings of a shard; `threads` look through its segments."""
        dense = {name: edge.EdgeVectorParams(**_arguments(params)) for name, params in self.dense_vectors().items()}
        sparse = {
            name: edge.EdgeSparseVectorParams(modifier=_modifier(params), **_arguments(params.get("index") or {}))
            for name, params in self.sparse_vectors().items()
        }
        if not dense and not sparse:
            # Qdrant has collections of payloads alone, the engine wants a vector: one that nobody sees or fills.
            sparse = {_PLACEHOLDER_VECTOR: edge.EdgeSparseVectorParams()}
        names = ("on_disk_payload", "hnsw_config", "quantization_config")
        optimizers = self.config.get("optimizers_config")
        if optimizers is not None:  # the engine has some of a server's
            known = {name: value for name, value in optimizers.items() if hasattr(edge.EdgeOptimizersConfig, name)}
            optimizers = edge.EdgeOptimizersConfig(**known)
        return edge.EdgeConfig(
            vectors=dense,
            sparse_vectors=sparse,
            **_arguments({name: self.config.get(name) for name in names}),
            optimizers=optimizers,
            payload_memory=to_edge_enum(edge.Memory, (self.config.get("payload") or {}).get("memory")),
            id_tracker_memory=to_edge_enum(edge.Memory, (self.config.get("id_tracker") or {}).get("memory")),
            wal_enabled=self.wal,
            max_search_threads=threads,
        )


def load_settings(directory: Path) -> Settings:
    """Read the settings, with a look whether the engine takes them."""

    def checked(raw: dict[str, Any]) -> Settings:
        settings = Settings(**raw)
        settings.to_edge()
        for schema in settings.indexes.values():
            to_edge_index(schema)
        return settings

    return read_versioned(directory / SETTINGS_FILE, checked)


def new_shard_name() -> str:
    """A name no other rebuild ever had: one that was given up may clean up late, when others are at work."""
    return f"shard-{uuid4().hex[:12]}"


# --- The vectors of a collection ---


def check_vector_name(name: str) -> None:
    """Refuse names that can't be part of a file's."""
    if not name or len(name.encode()) > _MAX_VECTOR_NAME_BYTES or any(c in '<>:"/\\|?*' or c < " " for c in name):
        raise BadRequest(
            f'Invalid vector name {name!r}: 1 to {_MAX_VECTOR_NAME_BYTES} bytes, none of < > : " / \\ | ? *.'
        )


@dataclass(frozen=True)
class DenseField:
    """What a dense vector must look like."""

    size: int
    multi: bool
    max_value: float  # numbers up to this one can be stored without a closer look


@dataclass(frozen=True)
class VectorSchema:
    """The vectors of one collection by name; "" is the unnamed one."""

    dense: dict[str, DenseField]
    sparse: frozenset[str]

    def names(self) -> list[str]:
        return sorted([*self.dense, *self.sparse])

    def check_name(self, name: str) -> str:
        if name in self.dense or name in self.sparse:
            return name
        known = ", ".join(repr(known) for known in self.names()) or "none"
        hint = "pass using=… with one of them" if name == "" else "create it with create_vector_name(…)"
        raise BadRequest(f"Not existing vector name error: {name!r}. The collection has {known}: {hint}.")

    def structs(self, vectors: Iterable[Any]) -> list[Any]:
        """The vectors of many points, each a mapping by name or the unnamed vector."""
        named = [each if isinstance(each, Mapping) else {"": each} for each in vectors]
        # Arrays of one name are looked at together. Their memory is what the engine reads fastest: a list needs an
        # object for every number, and the array itself is read slowly.
        rows = {
            name
            for name, field in self.dense.items()
            if _are_rows([each[name] for each in named if name in each], field)
        }
        return [
            {name: value.data if name in rows else self.vector(name, value) for name, value in each.items()}
            for each in named
        ]

    def vector(self, name: str, value: Any, *, query: bool = False) -> Any:
        """One vector of the named field; in a query, a multi-vector field also takes a single vector."""
        if name in self.sparse:
            return _sparse(name, value)
        if name not in self.dense:
            self.check_name(name)  # which says so
        field = self.dense[name]
        if not field.multi:
            return _dense(name, value, field)
        rows = _as_list(name, value)
        if query and not (rows and hasattr(rows[0], "__len__")):
            rows = [rows]
        if not rows:
            raise BadRequest(f"Multi-vector {name!r} must hold at least one vector.")
        return [_dense(name, row, field) for row in rows]


def _are_rows(values: list[Any], field: DenseField) -> bool:
    """What models make: so many 32-bit floats, none of them NaN or infinite. Anything else gets a closer look."""
    if not values or field.multi:
        return False
    for value in values:
        row = type(value) is np.ndarray and value.dtype == np.float32 and value.shape == (field.size,)
        if not (row and value.flags.c_contiguous):
            return False
    return bool(np.abs(np.concatenate(values)).max() <= field.max_value)


def _as_list(name: str, value: Any) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return list(value)
    kind = type(value).__name__
    raise BadRequest(f"Vector {name!r} must be a list of numbers, not {kind}: text and images need an encoder first.")


def _dense(name: str, value: Any, field: DenseField) -> list[float]:
    """A list: the engine reads those ten times faster than numpy arrays."""
    if type(value) is np.ndarray:
        value = value.tolist()
    numbers: list[float] = value if type(value) is list else _as_list(name, value)
    if len(numbers) != field.size:
        raise BadRequest(
            f"Vector dimension error: vector {name!r} expected dim: {field.size}, got {len(numbers)}. Encode with "
            "the model the collection was made for."
        )
    _check_finite(name, numbers)
    if field.max_value == _MAX_HALF and max(map(abs, numbers)) > _MAX_HALF:
        raise BadRequest(f"Vector {name!r} holds a number too large for 16-bit floats: scale it, or store 32 bits.")
    return numbers


def _check_finite(name: str, numbers: list[float]) -> None:
    try:
        # The length is NaN or inf as soon as one number is: one C call instead of a Python loop.
        length = math.hypot(*numbers)
    except TypeError:
        raise BadRequest(f"Vector {name!r} must hold numbers only.") from None
    if not length <= _MAX_FLOAT32:
        raise BadRequest(f"Vector {name!r} holds NaN, infinity or a number too large for 32-bit floats.")


def _sparse(name: str, value: Any) -> edge.SparseVector:
    if isinstance(value, Mapping) and value.keys() == {"indices", "values"}:
        indices, values = list(value["indices"]), list(value["values"])
    elif hasattr(value, "indices") and hasattr(value, "values") and not isinstance(value, Mapping):
        indices, values = list(value.indices), list(value.values)
    else:
        raise BadRequest(f"Vector {name!r} is sparse: pass a SparseVector(indices, values).")
    if len(indices) != len(values):
        raise BadRequest(f"Sparse vector {name!r}: {len(indices)} indices but {len(values)} values.")
    _check_finite(name, values)
    if not all(map(lt, indices, islice(indices, 1, None))):  # most are in order, each once
        pairs = dict(zip(indices, values, strict=True))
        if len(pairs) != len(indices):
            raise BadRequest(f"Sparse vector {name!r} names an index twice: add up its values first.")
        indices.sort()
        values = [pairs[index] for index in indices]
    if indices and not (indices[0] >= 0 and indices[-1] <= _MAX_SPARSE_INDEX):
        raise BadRequest(f"Sparse vector {name!r}: indices must be from 0 to 2**32 - 1.")
    return edge.SparseVector(indices, values)


# --- The engine's form of the settings ---


@cache
def _members(edge_enum: type) -> dict[str, Any]:
    names = (name for name in dir(edge_enum) if not name.startswith("_"))
    return {name.replace("_", "").lower(): getattr(edge_enum, name) for name in names}


def to_edge_enum(edge_enum: Any, value: Enum | str | None) -> Any:
    """The engine's member of the same name, None for None. One rule for all: `max_sim` is spelt `MaxSim` there."""
    if value is None:
        return None
    text = str(value.value if isinstance(value, Enum) else value)
    member = _members(edge_enum).get(text.replace("_", "").lower())
    if member is None:
        raise NotImplementedError(
            f"{edge_enum.__name__} {text!r} isn't in the embedded engine (it has: "
            f"{', '.join(sorted(_members(edge_enum)))}). Choose one of those, or use a Qdrant server."
        )
    return member


def new_vector(name: str, params: Config, *, sparse: bool) -> edge.UpdateOperation:
    """The operation that adds a named vector to a collection."""
    check_vector_name(name)
    given = _arguments((params.get("index") or {}) if sparse else params)
    if sparse:
        return edge.UpdateOperation.create_sparse_vector(name, _modifier(params), given.get("datatype"))
    multi, datatype = given.get("multivector_config"), given.get("datatype")
    return edge.UpdateOperation.create_dense_vector(name, given["size"], given["distance"], multi, datatype)


def to_edge_index(schema: str | Config) -> Any:
    """What `create_field_index` takes, for the name of a type or the parameters of an index."""
    if isinstance(schema, str):
        return to_edge_enum(edge.PayloadSchemaType, schema)
    given = _arguments(schema)
    return getattr(edge, f"{given.pop('type').title()}IndexParams")(**given)


def _arguments(params: Config) -> dict[str, Any]:
    """What the engine's class for these settings takes: it calls them as Qdrant's REST interface does."""
    given = {name: value for name, value in params.items() if value is not None}
    return {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in given.items()}


def _modifier(params: Config) -> edge.Modifier | None:
    """`none` is the absence of a modifier."""
    value = params.get("modifier")
    if value not in (None, "none", "idf"):
        raise BadRequest(f"Unknown sparse vector modifier {value!r}: use Modifier.IDF or none.")
    return edge.Modifier.Idf if value == "idf" else None


def _quantization(value: Config) -> Any:
    [(kind, params)] = value.items()
    given = _arguments(params)
    if kind == "scalar":
        given["type"] = to_edge_enum(edge.ScalarType, given["type"])
    name = "TurboQuant" if kind == "turbo" else kind.title()
    return getattr(edge, f"{name}QuantizationConfig")(**given)


def _stopwords(value: str | Config) -> Any:
    if isinstance(value, str):
        return to_edge_enum(edge.Language, value)
    languages = {to_edge_enum(edge.Language, name) for name in value.get("languages") or []}
    return edge.StopwordsSet(languages, set(value.get("custom") or []))


def _stemmer(value: Config) -> Any:
    if value["type"] == "none":
        return edge.DisabledStemmer()
    return edge.SnowballParams(to_edge_enum(edge.SnowballLanguage, value["language"]))


def _scoring(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return edge.TextScoringParams(to_edge_enum(edge.TextScoringType, value.get("type")))


_ENUMS: dict[str, Any] = {
    "distance": edge.Distance,
    "datatype": edge.VectorStorageDatatype,
    "memory": edge.Memory,
    "comparator": edge.MultiVectorComparator,
    "compression": edge.CompressionRatio,
    "encoding": edge.BinaryQuantizationEncoding,
    "query_encoding": edge.BinaryQuantizationQueryEncoding,
    "bits": edge.TurboQuantBitSize,
    "tokenizer": edge.TokenizerType,
}
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    **{name: partial(to_edge_enum, edge_enum) for name, edge_enum in _ENUMS.items()},
    "multivector_config": lambda value: edge.MultiVectorConfig(**_arguments(value)),
    "hnsw_config": lambda value: edge.HnswIndexConfig(**{**HNSW_DEFAULTS, **_arguments(value)}),
    "quantization_config": _quantization,
    "stopwords": _stopwords,
    "stemmer": _stemmer,
    "scoring": _scoring,
}
