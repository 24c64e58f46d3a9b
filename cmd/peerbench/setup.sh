#!/bin/sh
# Prints the missing packages of the C and C++ libraries that are compared: LevelDB, RocksDB and LMDB
# with their headers. Without them the program does not include these engines. See .ci/setup.
set -u

command -v "${CC:-gcc}" >/dev/null 2>&1 || printf '%s (cmd/peerbench: compiles C and C++ engines)\n' gcc libc6-dev
[ -e /usr/include/leveldb/c.h ] || echo "libleveldb-dev (cmd/peerbench: LevelDB)"
[ -e /usr/include/rocksdb/c.h ] || echo "librocksdb-dev (cmd/peerbench: RocksDB)"
[ -e /usr/include/lmdb.h ] || echo "liblmdb-dev (cmd/peerbench: LMDB)"
exit 0
