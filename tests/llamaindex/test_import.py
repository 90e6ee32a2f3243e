from __future__ import annotations

import subprocess
import sys


def test_without_llamaindex_the_import_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['llama_index'] = None\n"
        "import twofold\n"
        "try:\n    import twofold.llamaindex\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == 'twofold.llamaindex needs LlamaIndex: pip install "twofold[llamaindex]"'
