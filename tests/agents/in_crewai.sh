#!/bin/sh
# Run CrewAI's tests and example in a virtual environment of their own: it pins much of what the others need newer.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip --disable-pip-version-check -qq install --no-compile \
    -e '.[crewai]' pytest pytest-asyncio pytest-timeout hypothesis
"$folder/venv/bin/python" -c 'import twofold.crewai' # or else the tests would be skipped
"$folder/venv/bin/python" -m pytest -q -p no:cacheprovider \
    tests/agents/test_crewai.py tests/docs/test_examples.py::test_example_runs'[crewai_memory.py]' "$@"
