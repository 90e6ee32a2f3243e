"""The dense model that comes with the package: all-MiniLM-L6-v2, int8, 384 dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from twofold.encoders.base import DenseEncoder, Vectors
from twofold.errors import ModelUnavailable

if TYPE_CHECKING:
    from fastembed import TextEmbedding

NAME = "all-MiniLM-L6-v2-int8"
DIM = 384
_FOLDER = Path(__file__).with_name("minilm")
_loading = Lock()


def encoder() -> DenseEncoder:
    """The bundled model. Its weights are read at the first text, not before."""
    return DenseEncoder(
        name=NAME,
        dim=DIM,
        by_name=True,
        languages=frozenset({"english"}),
        background=0.2,
        embed_documents=_embed_documents,
        embed_query=_embed_query,
    )


def _embed_documents(texts: Sequence[str]) -> Vectors:
    """One by one: the 8-bit model scales its numbers by the batch, so a text's vector would depend on its neighbours.

    On a CPU that is as quick as any batch, since nothing is padded.
    """
    vectors = list(_model().embed(texts, batch_size=1))
    return np.asarray(vectors, dtype=np.float32).reshape(len(texts), DIM)


def _embed_query(text: str) -> Vectors:
    return np.asarray(next(iter(_model().embed([text]))), dtype=np.float32)


def _model() -> TextEmbedding:
    with _loading:  # lru_cache alone lets several threads build the model at once
        return _load()


@lru_cache(maxsize=1)
def _load() -> TextEmbedding:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if not (_FOLDER / "model.onnx").is_file():
        raise ModelUnavailable(
            "the bundled model is not in this installation: install the built package (pip install twofold), "
            "or in a source tree run `pip install -e .`, which fetches it",
            model=NAME,
        )
    if not any(known["model"] == NAME for known in TextEmbedding.list_supported_models()):
        TextEmbedding.add_custom_model(
            model=NAME,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf=NAME),
            dim=DIM,
            model_file="model.onnx",
        )
    return TextEmbedding(NAME, specific_model_path=str(_FOLDER))
