#!/bin/sh
# Write a collection with each real package, in an environment of its own, adopt it with Twofold, and let the package
# read it again: their pins don't go together. FOREIGN_ENVIRONMENTS names a folder to keep the environments in.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
environments="${FOREIGN_ENVIRONMENTS:-$folder/environments}"
own="${TWOFOLD_PYTHON:-.venv/bin/python}"

check() { # the name of an environment, what to install, and what to write there
    environment="$environments/$1"
    if [ ! -x "$environment/bin/python" ]; then
        "${PYTHON:-python3}" -m venv "$environment"
        "$environment/bin/python" -m pip --disable-pip-version-check -qq install --no-compile $2
    fi
    shift 2
    for name in "$@"; do
        python="$environment/bin/python"
        "$python" tests/foreign/write.py "$name" write "$folder/$name" >/dev/null
        "$python" tests/foreign/write.py "$name" read "$folder/$name" "rathole port" | tail -n 1 >"$folder/before"
        PYTHONPATH=src:. "$own" -m tests.foreign.takes_over "$folder/$name"
        "$python" tests/foreign/write.py "$name" read "$folder/$name" "rathole port" | tail -n 1 >"$folder/after"
        cmp "$folder/before" "$folder/after"
        echo "$name: opened, adopted, and read again by its own package"
    done
}

check langchain langchain-qdrant langchain langchain-hybrid
check llamaindex llama-index-vector-stores-qdrant llamaindex llamaindex-hybrid
check haystack qdrant-haystack haystack haystack-sparse
check mem0 mem0ai mem0
check mcp-server-qdrant mcp-server-qdrant mcp-server-qdrant
