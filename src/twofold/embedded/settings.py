"""What a collection is: its settings on disk, the engine's form of them, and what its vectors must look like.

The settings are one versioned JSON file that is replaced as a whole. It also names the directory of the live shard, so
replacing it is the one moment at which a rebuilt shard takes the place of the old one.

`config` in it is the body of Qdrant's REST request that makes a collection (`vectors`, `sparse_vectors`, `hnsw_config`,
`metadata` …) and `indexes` maps a payload field to the `field_schema` of the request that indexes it, both as plain
JSON: no version of qdrant-client has a say in what is on disk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from enum import Enum
from functools import cache
from itertools import islice
from operator import lt
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import qdrant_edge as edge

from .errors import BadRequest, StoreFormatError
from .lock import write_json

FORMAT_VERSION = 1
SETTINGS_FILE = "collection.json"
# The server's own defaults; the engine wants them spelt out.
HNSW_DEFAULTS: dict[str, Any] = {
    "m": 16,
    "ef_construct": 100,
    "full_scan_threshold": 10_000,
    "max_indexing_threads": 0,
}

_PLACEHOLDER_VECTOR = "twofold-none"
_MAX_VECTOR_SIZE = 65_536
_MAX_VECTOR_NAME_BYTES = 200
_MAX_FLOAT32 = 3.4028234e38
_MAX_SPARSE_INDEX = 2**32 - 1
# No vector of numbers up to this one is too long for 32 bits.
MAX_SINGLE = 1e18
MAX_HALF = 65_504.0

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
        write_json(directory / SETTINGS_FILE, {"format": FORMAT_VERSION, "engine": "qdrant-edge", **vars(self)})

    def with_config(self, **changes: Any) -> Settings:
        """The settings with other values for some keys of `config`."""
        return replace(self, config={**self.config, **changes})


def load_settings(directory: Path) -> Settings:
    """Read the settings; refuse those of a newer version instead of misreading them."""
    path = directory / SETTINGS_FILE
    try:
        raw = json.loads(path.read_text("utf-8"))
        version = raw.pop("format")
        if version > FORMAT_VERSION:
            raise StoreFormatError(
                f"{path} has format {version}, this version reads up to {FORMAT_VERSION}: upgrade twofold."
            )
        raw.pop("engine")
        settings = Settings(**raw)
        to_edge_config(settings.config, settings.wal)
        for schema in settings.indexes.values():
            to_edge_index(schema)
        return settings
    except (ValueError, KeyError, TypeError, AttributeError, NotImplementedError) as error:
        raise StoreFormatError(f"{path} can't be read ({error}): restore it from a backup.") from error


def new_shard_name() -> str:
    """A name no other rebuild ever had: one that was given up may clean up late, when others are at work."""
    return f"shard-{uuid4().hex[:12]}"


# --- The vectors of a collection ---


def dense_vectors(config: Config) -> dict[str, Config]:
    """Parameters of the dense vectors by name, those of the unnamed vector as ""."""
    vectors = config.get("vectors") or {}
    unnamed = isinstance(vectors.get("size"), int)  # and not the parameters of a vector that is called so
    return {"": vectors} if unnamed else dict(vectors)


def sparse_vectors(config: Config) -> dict[str, Config]:
    """Parameters of the sparse vectors by name."""
    return dict(config.get("sparse_vectors") or {})


def check_config(config: Config) -> None:
    """Refuse vectors that the engine would accept and later stumble over."""
    dense = dense_vectors(config)
    for name, params in dense.items():
        if name:
            check_vector_name(name)
        check_vector_size(params["size"])
    for name in sparse_vectors(config):
        check_vector_name(name)
        if name in dense:
            raise BadRequest(f"Vector {name!r} can't be both dense and sparse.")


def check_vector_size(size: int) -> None:
    """Refuse sizes that no vector can have."""
    if not 1 <= size <= _MAX_VECTOR_SIZE:
        raise BadRequest(f"Vector size {size} is invalid. Must be from 1 to {_MAX_VECTOR_SIZE}.")


def check_vector_name(name: str) -> None:
    """Refuse names that can't be part of a file's."""
    if not name or len(name.encode()) > _MAX_VECTOR_NAME_BYTES or any(c in '<>:"/\\|?*' or c < " " for c in name):
        raise BadRequest(
            f'Invalid vector name {name!r}: 1 to {_MAX_VECTOR_NAME_BYTES} bytes, none of < > : " / \\ | ? *.'
        )


def to_schema(config: Config) -> VectorSchema:
    """What the vectors of a collection must look like."""
    dense = {
        name: DenseField(params["size"], params.get("multivector_config") is not None, _max_value(params))
        for name, params in dense_vectors(config).items()
    }
    return VectorSchema(dense, frozenset(sparse_vectors(config)))


def _max_value(params: Config) -> float:
    """Up to which number all can be stored. Cosine vectors have length 1 by the time they are."""
    half = params.get("datatype") == "float16" and params["distance"] != "Cosine"
    return MAX_HALF if half else MAX_SINGLE


@dataclass(frozen=True)
class DenseField:
    """What a dense vector must look like."""

    size: int
    multi: bool
    max_value: float = MAX_SINGLE  # numbers up to this one can be stored without a closer look


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
            f"Vector {name!r} must be a list of numbers, not {type(value).__name__}: text and images need an encoder "
            "first."
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
    if field.max_value == MAX_HALF and max(map(abs, numbers)) > MAX_HALF:
        raise BadRequest(f"Vector {name!r} holds a number too large for 16-bit floats: scale it, or store 32 bits.")
    return numbers


def _are_rows(values: list[Any], field: DenseField) -> bool:
    """What models make: so many 32-bit floats, none of them NaN or infinite. Anything else gets a closer look."""
    if not values or field.multi or not all(_is_row(value, field.size) for value in values):
        return False
    return bool(np.abs(np.concatenate(values)).max() <= field.max_value)


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
    if not length <= _MAX_FLOAT32:
        raise BadRequest(f"Vector {name!r} holds NaN, infinity or a number too large for 32-bit floats.")


def _multi(name: str, value: Any, field: DenseField) -> list[list[float]]:
    rows = _plain(name, value)
    if not rows:
        raise BadRequest(f"Multi-vector {name!r} must hold at least one vector.")
    return [_dense(name, row, field) for row in rows]


def _sparse(name: str, value: Any) -> edge.SparseVector:
    if isinstance(value, Mapping) and value.keys() == {"indices", "values"}:
        value = edge.SparseVector(value["indices"], value["values"])
    if not (hasattr(value, "indices") and hasattr(value, "values")):
        raise BadRequest(f"Vector {name!r} is sparse: pass a SparseVector(indices, values).")
    indices, values = _list(value.indices), _list(value.values)
    if len(indices) != len(values):
        raise BadRequest(f"Sparse vector {name!r}: {len(indices)} indices but {len(values)} values.")
    _finite(name, values)
    if not all(map(lt, indices, islice(indices, 1, None))):  # most are in order, each once
        indices, values = _in_order(name, indices, values)
    if indices and not (indices[0] >= 0 and indices[-1] <= _MAX_SPARSE_INDEX):
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


def to_edge_config(config: Config, wal: bool, threads: int = 1) -> edge.EdgeConfig:
    """A shard's settings; `threads` look through its segments."""
    dense = {name: _dense_params(params) for name, params in dense_vectors(config).items()}
    sparse = {name: _sparse_params(params) for name, params in sparse_vectors(config).items()}
    if not dense and not sparse:
        # Qdrant has collections of payloads alone, the engine wants a vector: one that nobody sees or fills.
        sparse = {_PLACEHOLDER_VECTOR: edge.EdgeSparseVectorParams()}
    return edge.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        on_disk_payload=config.get("on_disk_payload"),
        hnsw_config=_hnsw(config.get("hnsw_config")),
        quantization_config=_quantization(config.get("quantization_config")),
        optimizers=_optimizers(config.get("optimizers_config")),
        payload_memory=_memory(config.get("payload") or {}),
        id_tracker_memory=_memory(config.get("id_tracker") or {}),
        wal_enabled=wal,
        max_search_threads=threads,
    )


def _dense_params(params: Config) -> edge.EdgeVectorParams:
    return edge.EdgeVectorParams(
        size=params["size"],
        distance=to_edge_enum(edge.Distance, params["distance"]),
        on_disk=params.get("on_disk"),
        multivector_config=_multivector(params.get("multivector_config")),
        datatype=_datatype(params),
        quantization_config=_quantization(params.get("quantization_config")),
        hnsw_config=_hnsw(params.get("hnsw_config")),
        memory=_memory(params),
    )


def _sparse_params(params: Config) -> edge.EdgeSparseVectorParams:
    index = params.get("index") or {}
    return edge.EdgeSparseVectorParams(
        full_scan_threshold=index.get("full_scan_threshold"),
        on_disk=index.get("on_disk"),
        modifier=_modifier(params),
        datatype=_datatype(index),
        memory=_memory(index),
    )


def new_dense_vector(name: str, params: Config) -> edge.UpdateOperation:
    """The operation that adds a dense vector to a collection."""
    return edge.UpdateOperation.create_dense_vector(
        name,
        params["size"],
        to_edge_enum(edge.Distance, params["distance"]),
        _multivector(params.get("multivector_config")),
        _datatype(params),
    )


def new_sparse_vector(name: str, params: Config) -> edge.UpdateOperation:
    """The operation that adds a sparse vector to a collection."""
    return edge.UpdateOperation.create_sparse_vector(name, _modifier(params), _datatype(params.get("index") or {}))


def _modifier(params: Config) -> edge.Modifier | None:
    """`none` is the absence of a modifier."""
    value = params.get("modifier")
    if value not in (None, "none", "idf"):
        raise BadRequest(f"Unknown sparse vector modifier {value!r}: use Modifier.IDF or none.")
    return edge.Modifier.Idf if value == "idf" else None


def _multivector(value: Config | None) -> edge.MultiVectorConfig | None:
    if value is None:
        return None
    return edge.MultiVectorConfig(to_edge_enum(edge.MultiVectorComparator, value["comparator"]))


def _datatype(params: Config) -> Any:
    return to_edge_enum(edge.VectorStorageDatatype, params.get("datatype"))


def _memory(params: Config) -> Any:
    return to_edge_enum(edge.Memory, params.get("memory"))


def _hnsw(diff: Config | None) -> edge.HnswIndexConfig | None:
    if diff is None:
        return None
    given = {name: value for name, value in diff.items() if value is not None}
    return edge.HnswIndexConfig(**{**HNSW_DEFAULTS, **given, "memory": _memory(diff)})


def _optimizers(diff: Config | None) -> edge.EdgeOptimizersConfig | None:
    if diff is None:
        return None
    names = (
        "deleted_threshold",
        "vacuum_min_vector_number",
        "default_segment_number",
        "max_segment_size",
        "indexing_threshold",
        "prevent_unoptimized",
    )
    return edge.EdgeOptimizersConfig(**{name: diff.get(name) for name in names})


def _quantization(value: Config | None) -> Any:
    if value is None:
        return None
    [(kind, given)] = value.items()
    always_ram, memory = given.get("always_ram"), _memory(given)
    if kind == "scalar":
        scalar = to_edge_enum(edge.ScalarType, given["type"])
        return edge.ScalarQuantizationConfig(scalar, given.get("quantile"), always_ram, memory)
    if kind == "product":
        ratio = to_edge_enum(edge.CompressionRatio, given["compression"])
        return edge.ProductQuantizationConfig(ratio, always_ram, memory)
    if kind == "binary":
        stored = to_edge_enum(edge.BinaryQuantizationEncoding, given.get("encoding"))
        queried = to_edge_enum(edge.BinaryQuantizationQueryEncoding, given.get("query_encoding"))
        return edge.BinaryQuantizationConfig(always_ram, stored, queried, memory)
    bits = to_edge_enum(edge.TurboQuantBitSize, given.get("bits"))
    return edge.TurboQuantQuantizationConfig(always_ram, bits, memory)


_INDEX_PARAMS: dict[str, Any] = {
    "keyword": edge.KeywordIndexParams,
    "integer": edge.IntegerIndexParams,
    "float": edge.FloatIndexParams,
    "geo": edge.GeoIndexParams,
    "bool": edge.BoolIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "uuid": edge.UuidIndexParams,
    "text": edge.TextIndexParams,
}


def to_edge_index(schema: str | Config) -> Any:
    """What `create_field_index` takes, for the name of a type or the parameters of an index."""
    if isinstance(schema, str):
        return to_edge_enum(edge.PayloadSchemaType, schema)
    given = {name: value for name, value in schema.items() if value is not None}
    kind = given.pop("type")
    given["memory"] = _memory(schema)
    if kind == "text":
        given.update(_text_index(schema))
    return _INDEX_PARAMS[kind](**given)


def _text_index(schema: Config) -> dict[str, Any]:
    scoring: Any = schema.get("scoring")
    if isinstance(scoring, Mapping):
        scoring = edge.TextScoringParams(to_edge_enum(edge.TextScoringType, scoring.get("type")))
    return {
        "tokenizer": to_edge_enum(edge.TokenizerType, schema.get("tokenizer")),
        "stopwords": _stopwords(schema.get("stopwords")),
        "stemmer": _stemmer(schema.get("stemmer")),
        "scoring": scoring,
    }


def _stopwords(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return to_edge_enum(edge.Language, value)
    languages = {to_edge_enum(edge.Language, name) for name in value.get("languages") or []}
    return edge.StopwordsSet(languages, set(value.get("custom") or []))


def _stemmer(value: Any) -> Any:
    if value is None:
        return None
    if value["type"] == "none":
        return edge.DisabledStemmer()
    return edge.SnowballParams(to_edge_enum(edge.SnowballLanguage, value["language"]))
