#!/bin/sh
# Installs what the exchange tests need beside Go: a C++ compiler, LevelDB 1.23
# and RocksDB's tools, from the distribution's own packages. Does nothing where
# they are there; elsewhere it says what is missing and succeeds, since the tests
# then say what they left out.
set -u

missing() {
    command -v "${CXX:-g++}" >/dev/null 2>&1 || printf 'g++ '
    [ -e /usr/include/leveldb/db.h ] || printf 'libleveldb-dev '
    [ -e /usr/include/snappy.h ] || printf 'libsnappy-dev '
    command -v sst_dump >/dev/null 2>&1 && command -v ldb >/dev/null 2>&1 || printf 'rocksdb-tools '
}

packages=$(missing)
if [ -z "$packages" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "interop: not installed, tests that need them are left out: $packages" >&2
    exit 0
fi
# shellcheck disable=SC2086 # a list of words
sh "$(dirname "$0")/../../.ci/install" $packages
packages=$(missing)
if [ -n "$packages" ]; then
    echo "interop: could not be installed, tests that need them are left out: $packages" >&2
fi
exit 0
