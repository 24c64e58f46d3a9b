#!/bin/sh
# Makes words-stored.txt.gz and words-absent.txt.gz from Debian's packages
# wamerican-large and wamerican-insane (README.md has version and licence).
# Run it in the folder that shall hold the files.
set -eu
export LC_ALL=C
dict=${1:-/usr/share/dict}
absent=100000

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

sort -u "$dict/american-english-large" > "$tmp/stored"
sort -u "$dict/american-english-insane" | comm -13 "$tmp/stored" - > "$tmp/rest"
# Evenly spread over the alphabet, and the same words each time.
awk -v want="$absent" -v have="$(wc -l < "$tmp/rest")" \
	'int(NR * want / have) > int((NR - 1) * want / have)' "$tmp/rest" > "$tmp/absent"

gzip -9n < "$tmp/stored" > words-stored.txt.gz
gzip -9n < "$tmp/absent" > words-absent.txt.gz
