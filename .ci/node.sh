#!/bin/sh
# Prints node's package if it is not installed: make wasm runs tests with it. See .ci/setup.
set -u

command -v node >/dev/null 2>&1 || echo "nodejs (make wasm)"
exit 0
