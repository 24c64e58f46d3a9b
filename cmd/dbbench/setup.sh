#!/bin/sh
# Prints the packages that the tests of this folder need and that are not installed: a browser without
# a window, with which they look at the page of filtersweep. See .ci/setup.
set -u

[ -n "${SIEVEDB_BROWSER:-}" ] && exit 0
# As in browser_test.go.
for name in chromium-headless-shell chromium chromium-browser google-chrome chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
# Older distributions have no package of the shell alone. The font is for machines without any.
package=chromium-headless-shell
if command -v apt-cache >/dev/null 2>&1 && ! apt-cache show "$package" >/dev/null 2>&1 && apt-cache show chromium >/dev/null 2>&1; then
    package=chromium
fi
echo "$package (cmd/dbbench: tests of its page)"
echo "fonts-dejavu-core (cmd/dbbench: tests of its page)"
