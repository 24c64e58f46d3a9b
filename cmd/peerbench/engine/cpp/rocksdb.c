//go:build cgo && rocksdb

#include "store.h"

#include <rocksdb/c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY rocksdb

// The value stays in the library's memory until it is copied.
static outcome get(store *s, const char *key, size_t key_length, char *into, size_t capacity) {
	outcome o = {-1, NULL};
	size_t length;
	const char *value;
	rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned(s->handle, s->reads, key, key_length, &o.text);
	if (pinned == NULL) return o;
	value = rocksdb_pinnableslice_value(pinned, &length);
	memcpy(into, value, length < capacity ? length : capacity);
	rocksdb_pinnableslice_destroy(pinned);
	o.length = (long)length;
	return o;
}

static outcome flush(store *s) {
	outcome o = {0, NULL};
	rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
	rocksdb_flush(s->handle, options, &o.text);
	rocksdb_flushoptions_destroy(options);
	return o;
}

static int working(store *s) {
	static const char *const properties[] = {
		"rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
		"rocksdb.compaction-pending", "rocksdb.num-running-compactions",
	};
	uint64_t n;
	for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
		if (rocksdb_property_int(s->handle, properties[i], &n) == 0 && n > 0) return 1;
	return 0;
}

#include "calls.h"

store *open_rocksdb(const char *dir, settings with, char **error) {
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_write_buffer_size(o, with.write_buffer_bytes);
	rocksdb_options_set_max_background_jobs(o, with.background_jobs);
	rocksdb_options_set_compression(o, rocksdb_snappy_compression);
	rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(with.cache_bytes));
	if (with.filter_bits > 0) rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(with.filter_bits));
	rocksdb_options_set_block_based_table_factory(o, table);
	if (with.open_files > 0) rocksdb_options_set_max_open_files(o, with.open_files);
	if (with.separate_from > 0) {
		rocksdb_options_set_enable_blob_files(o, 1);
		rocksdb_options_set_min_blob_size(o, with.separate_from);
		rocksdb_options_set_blob_compression_type(o, rocksdb_snappy_compression);
		rocksdb_options_set_enable_blob_gc(o, 1);
		rocksdb_options_set_blob_gc_force_threshold(o, 0.5);
	}
	store *s = new_store(dir, o, with.sync, error);
	if (s != NULL) s->working = working;
	return s;
}
