#ifndef PEERBENCH_STORE_H
#define PEERBENCH_STORE_H

#include <stddef.h>

// The result of a call. text is an error text, which the caller frees, or NULL.
typedef struct {
	long length; // of a value; -1: not found
	char *text;
} outcome;

// The position of an iterator. The bytes are valid until its next move.
typedef struct {
	const char *key, *value;
	size_t key_length, value_length;
	int valid;
} place;

typedef struct {
	int filter_bits;
	size_t cache_bytes, write_buffer_bytes;
	int background_jobs, sync, open_files; // open_files 0: the library's default
	size_t separate_from;                  // 0: values are in tables
} settings;

enum move { FIRST, LAST, SEEK, NEXT, PREV };

typedef struct store store;

struct store {
	// get writes at most capacity bytes of the value to into.
	outcome (*get)(store *, const char *key, size_t key_length, char *into, size_t capacity);
	outcome (*put)(store *, const char *key, size_t key_length, const char *value, size_t value_length);
	outcome (*remove)(store *, const char *key, size_t key_length);
	outcome (*flush)(store *);
	void (*close)(store *);
	int (*working)(store *); // whether a flush or compaction is running or due; NULL: the library does not say

	// A batch is filled entry by entry; apply empties it.
	void (*add)(store *, const char *key, size_t key_length, const char *value, size_t value_length);
	outcome (*apply)(store *);

	void *(*iterator)(store *);
	place (*move)(void *iterator, enum move, const char *key, size_t key_length);
	char *(*end)(void *iterator); // returns the error text, or NULL

	void *handle, *reads, *writes, *batch; // objects of the library
};

// On failure each returns NULL and sets *error, which the caller frees.
store *open_leveldb(const char *dir, settings, char **error);
store *open_rocksdb(const char *dir, settings, char **error);
store *open_lmdb(const char *dir, settings, char **error);

#endif
