"""A cross-encoder of four operators, written down as ONNX has it, in the cache in which fastembed looks for models.

It knows one thing: whether the word "yes" is in what it is given. Its logit is 6 for each, less 3.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tokenizers import Tokenizer

import twofold

NAME = "Xenova/ms-marco-MiniLM-L-6-v2"
_TOKENIZER = Path(twofold.__file__).parent / "encoders" / "bundled"
_SETTINGS = {
    "config.json": {"pad_token_id": 0},
    "tokenizer_config.json": {"model_max_length": 256, "pad_token": "[PAD]"},
    "special_tokens_map.json": {},
}
_FLOAT, _INT64 = 1, 7


def put_into_cache(cache: Path) -> None:
    """As if it had been downloaded under a name of fastembed's list."""
    stored = cache / f"models--{NAME.replace('/', '--')}"
    snapshot = stored / "snapshots" / "1"
    (snapshot / "onnx").mkdir(parents=True)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("1")
    shutil.copy(_TOKENIZER / "tokenizer.json", snapshot)
    for name, content in _SETTINGS.items():
        (snapshot / name).write_text(json.dumps(content))
    word = Tokenizer.from_file(str(_TOKENIZER / "tokenizer.json")).token_to_id("yes")
    assert word is not None
    (snapshot / "onnx" / "model.onnx").write_bytes(_model(word))


def _model(word: int) -> bytes:
    nodes = (
        _node("Equal", ["input_ids", "word"], "is_word"),
        _node("Cast", ["is_word"], "ones", _text(1, "to") + _number(3, _FLOAT) + _number(20, 2)),
        _node("ReduceSum", ["ones", "axis"], "count"),
        _node("Sub", ["count", "half"], "less"),
        _node("Mul", ["less", "six"], "logits"),
    )
    constants = (
        _number(1, 1) + _number(2, _INT64) + _number(7, word) + _text(8, "word"),
        _number(1, 1) + _number(2, _INT64) + _number(7, 1) + _text(8, "axis"),
        _number(1, 1) + _number(2, _FLOAT) + _part(9, b"\x00\x00\x00\x3f") + _text(8, "half"),
        _number(1, 1) + _number(2, _FLOAT) + _part(9, b"\x00\x00\xc0\x40") + _text(8, "six"),
    )
    graph = b"".join(_part(1, node) for node in nodes) + _text(2, "tiny")
    graph += b"".join(_part(5, constant) for constant in constants)
    graph += _part(11, _value("input_ids", _INT64)) + _part(12, _value("logits", _FLOAT))
    return _number(1, 8) + _part(7, graph) + _part(8, _number(2, 13))


def _node(operator: str, inputs: list[str], output: str, attribute: bytes = b"") -> bytes:
    named = b"".join(_text(1, each) for each in inputs) + _text(2, output) + _text(4, operator)
    return named + (_part(5, attribute) if attribute else b"")


def _value(name: str, kind: int) -> bytes:
    shape = b"".join(_part(1, _text(2, f"{name}_{axis}")) for axis in ("rows", "columns"))
    return _text(1, name) + _part(2, _part(1, _number(1, kind) + _part(2, shape)))


# Protocol buffers: a field is its number and kind, then a number, or a length and so many bytes.


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, content: str) -> bytes:
    return _part(field, content.encode())


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
