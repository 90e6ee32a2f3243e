"""The notebooks in examples/notebooks, and how one is run. `python -m tests.docs.notebooks` stores their outputs anew.

Each runs in a fresh kernel, in an empty folder. What it printed must agree with what is stored, by the rules of the
pages; of a picture only that there is one, since fonts and versions move its pixels.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
PICTURE = "image/png"
# Nothing that differs from machine to machine.
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run(path: Path, folder: Path) -> Any:
    """The notebook with the outputs that it has when it is run in this folder."""
    notebook = read(path)
    around = {name: value for name, value in os.environ.items() if not name.startswith("TWOFOLD_")}
    # tqdm, which comes with fastembed, misses the widgets of a browser; nothing here shows any.
    around |= {"IPYTHONDIR": str(folder / ".ipython"), "PYTHONWARNINGS": "ignore:IProgress not found"}
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=280, kernel_name="python3", resources=place, record_timing=False)
    client.execute(env=around)
    notebook.metadata = nbformat.from_dict(_METADATA)  # type: ignore[no-untyped-call]
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell: Any) -> str:
    """The text that a cell gave; a picture is a line of its own."""
    return "".join(_text(output) for output in cell.outputs)


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"{'' if output.name == 'stdout' else f'[{output.name}] '}{output.text}"
    return "[picture]\n" if PICTURE in output.data else f"{output.data.get('text/plain', '')}\n"


def main(names: list[str]) -> None:
    for path in NOTEBOOKS:
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run(path, Path(folder)), path)  # type: ignore[no-untyped-call]
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
