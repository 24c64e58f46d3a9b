#!/bin/sh
# Prints the comma-separated build tags of the C++ libraries whose headers are installed.
tags=
[ -e /usr/include/leveldb/c.h ] && tags=leveldb
[ -e /usr/include/rocksdb/c.h ] && tags="${tags:+$tags,}rocksdb"
echo "$tags"
