#!/bin/sh
# Installs a browser without a window, with which the tests look at the page of
# filtersweep, from the distribution's own packages. Does nothing where there is one;
# elsewhere it says what is missing and succeeds, since only those tests want it.
set -u

found() {
    [ -n "${SIEVEDB_BROWSER:-}" ] && return 0
    # As in browser_test.go.
    for name in chromium-headless-shell chromium chromium-browser google-chrome chrome; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

if found; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "dbbench: its tests need chromium or chrome; install one, or name it in SIEVEDB_BROWSER" >&2
    exit 0
fi
# Older distributions have no package of the shell alone. The font is for machines without any.
install=$(dirname "$0")/../../.ci/install
sh "$install" chromium-headless-shell fonts-dejavu-core || sh "$install" chromium fonts-dejavu-core
found || echo "dbbench: chromium could not be installed, and its tests need it" >&2
exit 0
