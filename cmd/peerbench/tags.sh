#!/bin/sh
# Prints the comma-separated build tags of the C and C++ libraries whose headers are installed.
tags=
[ -e /usr/include/leveldb/c.h ] && tags=leveldb
[ -e /usr/include/rocksdb/c.h ] && tags="${tags:+$tags,}rocksdb"
[ -e /usr/include/lmdb.h ] && tags="${tags:+$tags,}lmdb"
echo "$tags"
