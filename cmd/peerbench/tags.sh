#!/bin/sh
# Prints the build tags of the C++ libraries whose headers are here, with a comma
# between.
tags=
[ -e /usr/include/leveldb/c.h ] && tags=leveldb
[ -e /usr/include/rocksdb/c.h ] && tags="${tags:+$tags,}rocksdb"
echo "$tags"
