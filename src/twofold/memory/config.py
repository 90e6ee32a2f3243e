"""Settings of a memory, validated once; those of the environment are read when it is opened."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from twofold.config import CollectionSettings
from twofold.errors import ConfigError
from twofold.memory.items import INDEXES, check_trust, field_path
from twofold.ranking.fusion import FusionLike, Strategy, resolve
from twofold.ranking.signals import Recency, RecencyMode

_PREFIX = "TWOFOLD_"
# Names under which other memory servers know the same settings.
_ALIASES = {"MCP_MEMORY_HYBRID_ALPHA": "alpha", "MCP_MEMORY_RECENCY_DECAY": "recency_decay"}


class MemoryConfig(BaseModel):
    """How a memory recalls when a call doesn't say otherwise.

    Every field can be set in the environment too, as `TWOFOLD_` and its name in capitals; what is given here
    goes before the environment.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # the fields are the arguments, and that is what type checkers know

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise ConfigError(f"{_reasons(error)}. Change or leave it out") from error

    alpha: float | None = Field(default=None, ge=0, le=1)
    """From 0, words and tags only, to 1, meaning only. None: what was learned, or what suits the collection."""
    fusion: Strategy = Field(default_factory=lambda: resolve("auto"))
    """How meaning and words become one score."""
    k: int = Field(default=10, ge=0)
    """How many memories a recall gives at most."""
    depth: int = Field(default=100, ge=1, le=100_000)
    """How many candidates each leg brings. Half of what an index takes: that makes recall a third faster, for 0.4 % of
    nDCG@10 on thirteen sets."""
    min_score: float | Literal["auto"] | None = "auto"
    """Memories below this final score are left out. "auto" is a floor that off-topic queries stay under, for the
    bundled model and the fusion `auto`; elsewhere it is none."""
    tag_weight: float = Field(default=1.0, ge=0)
    """What tags named in the query add, as a share of the weight of words; 0 switches them off."""
    recency: RecencyMode = "soft"
    """How age counts: "soft", "full" or "blend"; see `Recency`."""
    recency_decay: float = Field(default=0.01, ge=0)
    """How fast freshness is lost, per day; 0.01 halves it in 70 days, 0 switches age off."""
    recency_share: float = Field(default=0.1, ge=0, le=1)
    """How much of a score depends on freshness, for "soft" and "blend"."""
    popularity: float = Field(default=0.05, ge=0)
    """What being recalled often adds at most; 0 switches it off."""
    importance: float = Field(default=0.1, ge=0, le=1)
    """What importance adds or takes at most; 0 switches it off."""
    pinned: float = Field(default=0.1, ge=0)
    """What being pinned adds; 0 switches it off."""
    type_weights: dict[str, float] = Field(default_factory=dict)
    """A factor for each type, as {"decision": 1.2}."""
    type_alpha: dict[str, float] = Field(default_factory=dict)
    """How much meaning counts for memories of a type, as {"movie": 0.8, "note": 0.6, "link": 0.5}."""
    fields: dict[str, Literal["keyword", "integer"]] = {"type": "keyword"}
    """Fields whose values a query can name besides tags: {"type": "keyword", "year": "integer"} makes "films of 2014"
    rank memories of type film with 2014 as `year` in their metadata first."""
    category_weight: float = Field(default=0.5, ge=0, le=1)
    """How much the words of the category count, where those of the text count 1."""
    tags_weight: float = Field(default=0.3, ge=0, le=1)
    """How much the words of the tags count, where those of the text count 1."""
    min_trust: str | None = None
    """The least trust that a recalled memory may have."""
    typos: bool = True
    """Look for the nearest known word where the query has one that no memory has."""
    touch: bool = True
    """Count recalls, and note when the last one was."""
    near_duplicate: float | None = Field(default=0.9, ge=0, le=1)
    """From which cosine on `remember` names memories that say nearly the same; None never looks."""
    text_fallback: bool = True
    """When nothing matches, look for the query as a part of the texts. That reads all of the user's memories."""

    @field_validator("fusion", mode="before")
    @classmethod
    def _resolve_fusion(cls, value: FusionLike) -> Strategy:
        return resolve(value)

    @field_validator("min_trust")
    @classmethod
    def _known_trust(cls, value: str | None) -> str | None:
        return value if value is None else check_trust(value)

    @field_validator("type_weights", "type_alpha")
    @classmethod
    def _not_negative(cls, value: dict[str, float]) -> dict[str, float]:
        if any(number < 0 for number in value.values()):
            raise ValueError("weights can't be negative")
        return value

    @field_validator("type_alpha")
    @classmethod
    def _shares(cls, value: dict[str, float]) -> dict[str, float]:
        if any(number > 1 for number in value.values()):
            raise ValueError("how much meaning counts is a share from 0 to 1")
        return value

    _alpha_from: str = PrivateAttr("the configuration")

    @property
    def alpha_reason(self) -> str:
        """Where `alpha` was set."""
        return f"set in {self._alpha_from}"

    @property
    def age(self) -> Recency:
        """How age counts."""
        return Recency(self.recency, self.recency_decay, self.recency_share)


SETTLED = ("fields", "category_weight", "tags_weight", "typos")
"""What decides which words are stored with a memory, or are read from all of them once: not to be changed later."""


def changed(config: MemoryConfig, changes: Mapping[str, Any]) -> MemoryConfig:
    """Other settings for a memory that is open. Nothing else counts as set that wasn't."""
    for name in SETTLED:
        if name in changes:
            raise ConfigError(f"{name} decides what is stored: give it to Memory.open, and store the memories anew")
    own = {name: getattr(config, name) for name in config.model_fields_set}
    try:
        return MemoryConfig(**{**own, **changes})
    except ValidationError as error:
        wrong = "; ".join(f"{each['loc'][0]}: {each['msg']}, got {each['input']!r}" for each in error.errors())
        raise ConfigError(f"{wrong}: use {', '.join(MemoryConfig.model_fields)}") from error


KINDS = ("memories", "knowledge")
KNOWLEDGE = {"recency_decay": 0.0, "popularity": 0.0, "near_duplicate": None}
"""What differs for knowledge: a fact from a manual doesn't fade, and being asked for doesn't make it truer."""


def _reasons(error: ValidationError) -> str:
    """What is wrong with which setting."""
    told = error.errors(include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}, got {each['input']!r}" for each in told)


def settle(
    kind: str, config: MemoryConfig | None, settings: CollectionSettings | None
) -> tuple[MemoryConfig, CollectionSettings]:
    """The settings to recall with, and the layout of the collection with the indexes that the fields need."""
    if kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    settled = settle_config(config, KNOWLEDGE if kind == "knowledge" else {})
    layout = settings or CollectionSettings()
    declared = {field_path(name): index for name, index in settled.fields.items()}
    indexes = {**declared, **INDEXES, **layout.payload_indexes}
    return settled, layout.model_copy(update={"payload_indexes": indexes})


def settle_config(given: MemoryConfig | None, preset: Mapping[str, Any]) -> MemoryConfig:
    """What was given in code, then the environment, then the preset, then the defaults."""
    own = {} if given is None else {name: getattr(given, name) for name in given.model_fields_set}
    around = from_environment(os.environ)
    settled = MemoryConfig(**{**preset, **around, **own})
    if "alpha" in around and "alpha" not in own:
        settled._alpha_from = "the environment"
    return settled


def from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the environment makes; a wrong one says which variable it stands in."""
    named = {f"{_PREFIX}{field.upper()}": field for field in MemoryConfig.model_fields}
    found: dict[str, Any] = {}
    for variable, field in {**_ALIASES, **named}.items():  # our own name goes last, and wins
        value = variables.get(variable, "").strip()
        if value:
            found[field] = _checked(variable, field, value)
    return found


def _checked(variable: str, field: str, value: str) -> Any:
    try:
        return getattr(MemoryConfig(**{field: _parsed(value)}), field)
    except ValueError as error:
        why = error.__cause__
        reason = why.errors()[0]["msg"] if isinstance(why, ValidationError) else str(error)
        raise ConfigError(f"the environment variable {variable} is {value!r}: {reason}. Change or unset it") from error


def _parsed(value: str) -> Any:
    """Lists and tables are written as JSON, and nothing at all as "none"."""
    if value.lower() == "none":
        return None
    return json.loads(value) if value[0] in "[{" else value
