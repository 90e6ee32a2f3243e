#!/bin/sh
# Run the MCP tests with version 1 and with version 2 of the mcp package, each in a virtual environment of its own.
# TWOFOLD_MCP_FUZZ says how many malformed messages they get.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
for wanted in 'mcp==1.27.*' 'mcp<2' 'mcp>=2'; do
    echo "== $wanted"
    rm -rf "$folder/venv"
    "${PYTHON:-python3}" -m venv "$folder/venv"
    "$folder/venv/bin/python" -m pip --disable-pip-version-check -qq install --no-compile \
        -e '.[mcp]' "$wanted" pytest pytest-asyncio pytest-timeout hypothesis jsonschema httpx
    "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider tests/mcp tests/tools "$@"
done
