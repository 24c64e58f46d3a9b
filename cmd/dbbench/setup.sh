#!/bin/sh
# Prints the missing packages that tests of pages need: a headless browser, with which they check
# the pictures of the documentation and the console. See .ci/setup.
set -u

[ -n "${SIEVEDB_BROWSER:-}" ] && exit 0
# The names are those of internal/test/browsertest.
for name in chromium-headless-shell chromium chromium-browser google-chrome chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
# Older distributions have no package with only the shell. The font is for machines without fonts.
package=chromium-headless-shell
if command -v apt-cache >/dev/null 2>&1 && ! apt-cache show "$package" >/dev/null 2>&1 && apt-cache show chromium >/dev/null 2>&1; then
    package=chromium
fi
echo "$package (cmd/dbbench, console: tests of their pages)"
echo "fonts-dejavu-core (cmd/dbbench, console: tests of their pages)"
