#!/bin/sh
# Prints the packages that the exchange tests need and that are not installed: a C++ compiler, LevelDB
# 1.23 and RocksDB's tools. See .ci/setup.
set -u

command -v "${CXX:-g++}" >/dev/null 2>&1 || echo "g++ (internal/test/interop: tests with LevelDB)"
[ -e /usr/include/leveldb/db.h ] || echo "libleveldb-dev (internal/test/interop: tests with LevelDB)"
[ -e /usr/include/snappy.h ] || echo "libsnappy-dev (internal/test/interop: tests with LevelDB)"
command -v sst_dump >/dev/null 2>&1 && command -v ldb >/dev/null 2>&1 || echo "rocksdb-tools (internal/test/interop: tests with RocksDB)"
exit 0
