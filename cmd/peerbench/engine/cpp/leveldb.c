//go:build cgo && leveldb

#include "store.h"

#include <leveldb/c.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY leveldb

// The library returns a copy of the value.
static outcome get(store *s, const char *key, size_t key_length, char *into, size_t capacity) {
	outcome o = {-1, NULL};
	size_t length;
	char *value = leveldb_get(s->handle, s->reads, key, key_length, &length, &o.text);
	if (value == NULL) return o;
	memcpy(into, value, length < capacity ? length : capacity);
	leveldb_free(value);
	o.length = (long)length;
	return o;
}

// Compacting any range starts with writing the memtable. This range has at most one key, a single
// zero byte.
static outcome flush(store *s) {
	outcome o = {0, NULL};
	leveldb_compact_range(s->handle, "", 0, "\0", 1);
	return o;
}

#include "calls.h"

store *open_leveldb(const char *dir, settings with, char **error) {
	leveldb_options_t *o = leveldb_options_create();
	leveldb_options_set_create_if_missing(o, 1);
	leveldb_options_set_write_buffer_size(o, with.write_buffer_bytes);
	leveldb_options_set_cache(o, leveldb_cache_create_lru(with.cache_bytes));
	leveldb_options_set_compression(o, leveldb_snappy_compression);
	if (with.filter_bits > 0) leveldb_options_set_filter_policy(o, leveldb_filterpolicy_create_bloom(with.filter_bits));
	if (with.open_files > 0) leveldb_options_set_max_open_files(o, with.open_files);
	return new_store(dir, o, with.sync, error);
}
