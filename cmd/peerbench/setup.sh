#!/bin/sh
# Prints the packages of the C++ libraries that are compared and not installed: LevelDB and
# RocksDB with their headers. Without them the program leaves these engines out. See .ci/setup.
set -u

command -v "${CC:-gcc}" >/dev/null 2>&1 || printf '%s (cmd/peerbench: compiles C++ engines)\n' gcc libc6-dev
[ -e /usr/include/leveldb/c.h ] || echo "libleveldb-dev (cmd/peerbench: LevelDB)"
[ -e /usr/include/rocksdb/c.h ] || echo "librocksdb-dev (cmd/peerbench: RocksDB)"
exit 0
