"""Payload indexes: a plain type, or its parameters."""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge
from qdrant_client import models

from twofold.embedded.errors import BadRequest

from .enums import to_edge_enum

_PARAMS: dict[type, type] = {
    models.KeywordIndexParams: edge.KeywordIndexParams,
    models.IntegerIndexParams: edge.IntegerIndexParams,
    models.FloatIndexParams: edge.FloatIndexParams,
    models.GeoIndexParams: edge.GeoIndexParams,
    models.BoolIndexParams: edge.BoolIndexParams,
    models.DatetimeIndexParams: edge.DatetimeIndexParams,
    models.UuidIndexParams: edge.UuidIndexParams,
    models.TextIndexParams: edge.TextIndexParams,
}


def to_edge_index(schema: Any) -> Any:
    """What `create_field_index` takes."""
    if isinstance(schema, (str, models.PayloadSchemaType)):
        return to_edge_enum(edge.PayloadSchemaType, schema)
    make = _PARAMS.get(type(schema))
    if make is None:
        raise BadRequest(f"{schema!r} is not a payload index: use PayloadSchemaType or one of the …IndexParams.")
    given = {name: getattr(schema, name) for name in type(schema).model_fields if name != "type"}
    given["memory"] = to_edge_enum(edge.Memory, schema.memory)
    if isinstance(schema, models.TextIndexParams):
        given.update(_text(schema))
    return make(**given)


def _text(schema: models.TextIndexParams) -> dict[str, Any]:
    scoring = schema.scoring
    if isinstance(scoring, models.TextScoringParams):
        scoring = edge.TextScoringParams(to_edge_enum(edge.TextScoringType, scoring.type))  # type: ignore[assignment]
    return {
        "tokenizer": to_edge_enum(edge.TokenizerType, schema.tokenizer),
        "stopwords": _stopwords(schema.stopwords),
        "stemmer": _stemmer(schema.stemmer),
        "scoring": scoring,
    }


def _stopwords(value: Any) -> Any:
    if not isinstance(value, models.StopwordsSet):
        return to_edge_enum(edge.Language, value)
    languages = {to_edge_enum(edge.Language, name) for name in value.languages or []}
    return edge.StopwordsSet(languages, set(value.custom or []))


def _stemmer(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, models.DisabledStemmerParams):
        return edge.DisabledStemmer()
    return edge.SnowballParams(to_edge_enum(edge.SnowballLanguage, value.language))
