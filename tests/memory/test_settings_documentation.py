"""The page about memory names every setting, with its default."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.docs.pages import ROOT
from twofold import MemoryConfig

ROW = re.compile(r"^\| `TWOFOLD_(\w+)` \| (.*?) \|", re.MULTILINE)
TABLE = dict(ROW.findall((ROOT / "docs" / "memory.md").read_text("utf-8")))


def shown(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    return str(getattr(value, "name", value))


@pytest.mark.parametrize("name", MemoryConfig.model_fields)
def test_setting_is_on_the_page(name: str) -> None:
    assert TABLE[name.upper()] == shown(getattr(MemoryConfig(), name))


def test_the_page_has_no_setting_that_is_gone() -> None:
    assert set(TABLE) == {name.upper() for name in MemoryConfig.model_fields}
