#!/bin/sh
# Installs the C++ libraries that are compared, LevelDB and RocksDB with their
# headers, from the distribution's own packages. Does nothing where they are
# there; elsewhere it says what is missing and succeeds, since the program then
# says which engines it left out.
set -u

missing() {
    command -v "${CC:-gcc}" >/dev/null 2>&1 || printf 'gcc libc6-dev '
    [ -e /usr/include/leveldb/c.h ] || printf 'libleveldb-dev '
    [ -e /usr/include/rocksdb/c.h ] || printf 'librocksdb-dev '
}

packages=$(missing)
if [ -z "$packages" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "peerbench: not installed, these engines are left out: $packages" >&2
    exit 0
fi
# shellcheck disable=SC2086 # a list of words
sh "$(dirname "$0")/../../.ci/install" $packages
packages=$(missing)
if [ -n "$packages" ]; then
    echo "peerbench: could not be installed, these engines are left out: $packages" >&2
fi
exit 0
