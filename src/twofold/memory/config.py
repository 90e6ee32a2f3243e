"""Settings of a memory: their defaults, what is in force when it is opened, and what can be changed afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError

from twofold.config import CollectionSettings
from twofold.encoders.rerankers import as_reranker
from twofold.errors import ConfigError
from twofold.index.opening import check_settings
from twofold.memory.items import INDEXES, check_trust, field_path
from twofold.ranking.fusion import Strategy, resolve
from twofold.ranking.signals import RecencyMode

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
                wrong = error.errors(include_url=False, include_context=False)
                reasons = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}, got {e['input']!r}" for e in wrong]
                raise ConfigError(f"{'; '.join(reasons)}. Change or leave it out") from error

    alpha: float | None = Field(default=None, ge=0, le=1)
    """From 0, words and tags only, to 1, meaning only. None: what was learned, or what suits the collection."""
    fusion: Annotated[Strategy, BeforeValidator(resolve)] = Field(default_factory=lambda: resolve("auto"))
    """How meaning and words become one score."""
    k: int = Field(default=10, ge=0)
    """How many memories a recall gives at most."""
    depth: int = Field(default=100, ge=1, le=100_000)
    """How many candidates each leg brings; `auto` takes 30 of each at the most, and scores all of them by both."""
    min_score: float | Literal["auto"] | None = "auto"
    """Memories whose relevance, from 0 to 1, is below this are left out. "auto" is a gate: nothing is given unless one
    of the first ten may be an answer, and then the ranking stays whole. Other fusions and `type_alpha` have none."""
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
    type_weights: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """A factor for each type, as {"decision": 1.2}."""
    type_alpha: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    """How much meaning counts for memories of a type, as {"movie": 0.8, "note": 0.6, "link": 0.5}."""
    fields: dict[str, Literal["keyword", "integer"]] = {"type": "keyword"}
    """Fields whose values a query can name besides tags: {"type": "keyword", "year": "integer"} makes "films of 2014"
    rank memories of type film with 2014 as `year` in their metadata first."""
    category_weight: float = Field(default=0.5, ge=0, le=1)
    """How much the words of the category count, where those of the text count 1."""
    tags_weight: float = Field(default=0.3, ge=0, le=1)
    """How much the words of the tags count, where those of the text count 1."""
    min_trust: Annotated[str, AfterValidator(lambda value: check_trust(value))] | None = None
    """The least trust that a recalled memory may have."""
    typos: bool = True
    """Read a word that is none, and that no memory has, as the nearest one that some memory has."""
    touch: bool = True
    """Count recalls, and note when the last one was."""
    near_duplicate: float | None = Field(default=0.9, ge=0, le=1)
    """From which cosine on `remember` names memories that say nearly the same; None never looks."""
    rerank: Annotated[Any, AfterValidator(as_reranker)] = None
    """Looks at the best memories once more, as `rerank` of `SearchConfig`: after the gate and all signals."""
    rerank_top: int = Field(default=30, ge=1, le=1000)
    """How many of the best the reranker looks at."""
    rerank_timeout: float = Field(default=30.0, gt=0)
    """Seconds that a reranker may take, after which the ranking before it stands."""
    text_fallback: bool = True
    """When nothing matches, look for the query as a part of the texts. That reads all of the user's memories."""
    log_queries: bool = False
    """Let the log of recalls show the first 100 characters of each query, which may be private."""

    _alpha_from: str = PrivateAttr("the configuration")

    @property
    def alpha_reason(self) -> str:
        """Where `alpha` was set."""
        return f"set in {self._alpha_from}"


# --- What is in force when a memory is opened ---

# A fact from a manual doesn't fade, and being asked for doesn't make it truer.
_PRESETS = {"memories": {}, "knowledge": {"recency_decay": 0.0, "popularity": 0.0, "near_duplicate": None}}


def settle(
    kind: str, config: MemoryConfig | None, settings: CollectionSettings | None, rerank: Any = None
) -> tuple[MemoryConfig, CollectionSettings]:
    """The settings (from code, else the environment, else the preset), and the layout with the fields' indexes."""
    if not isinstance(kind, str) or kind not in _PRESETS:
        raise ConfigError(f"kind must be one of {', '.join(_PRESETS)}, got {kind!r}")
    if config is not None and not isinstance(config, MemoryConfig):
        raise ConfigError(f"config must be MemoryConfig(…), got {type(config).__name__}")
    own, environment = {} if config is None else _given(config), from_environment(os.environ)
    own = own if rerank is None else {**own, "rerank": rerank}
    settled = MemoryConfig(**{**_PRESETS[kind], **environment, **own})
    if "alpha" in environment and "alpha" not in own:
        settled._alpha_from = "the environment"
    layout = CollectionSettings() if settings is None else check_settings(settings)
    declared = {field_path(name): index for name, index in settled.fields.items()}
    indexes = {**declared, **INDEXES, **layout.payload_indexes}
    # Memories are few and short: what the better model costs is not noticed.
    return settled, layout.model_copy(update={"payload_indexes": indexes})


def _given(config: MemoryConfig) -> dict[str, Any]:
    """The settings that somebody made, without those that are defaults."""
    return {name: getattr(config, name) for name in config.model_fields_set}


def from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the environment makes; a wrong one says which variable it stands in."""
    named = {f"TWOFOLD_{field.upper()}": field for field in MemoryConfig.model_fields}
    settings: dict[str, Any] = {}
    for variable, field in {**_ALIASES, **named}.items():  # our own name goes last, and wins
        value = variables.get(variable, "").strip()
        if not value:
            continue
        try:  # lists and tables are written as JSON, and nothing at all as "none"
            given: Any = None if value.lower() == "none" else json.loads(value) if value[0] in "[{" else value
            settings[field] = getattr(MemoryConfig(**{field: given}), field)
        except ValueError as error:
            why = error.__cause__
            reason = why.errors()[0]["msg"] if isinstance(why, ValidationError) else str(error)
            message = f"the environment variable {variable} is {value!r}: {reason}. Change or unset it"
            raise ConfigError(message) from error
    return settings


# --- Other settings for a memory that is open ---

SETTLED = ("fields", "category_weight", "tags_weight")
"""What decides which words are stored with a memory, or are read from all of them once: not to be changed later."""


def changed(config: MemoryConfig, changes: Mapping[str, Any]) -> MemoryConfig:
    """The same settings but for the changes; what was left at its default still is."""
    for name in SETTLED:
        if name in changes:
            raise ConfigError(f"{name} decides what is stored: give it to Memory.open, and store the memories anew")
    return MemoryConfig(**{**_given(config), **changes})
