//go:build cgo && lmdb

#include "store.h"

#include <lmdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	READERS = 2048, // more than the threads that the program may have
	CACHE_LINE = 64,
	FILE_MODE = 0644,
};

// The address space for the file, which grows as needed. It uses no memory.
#define MAP_SIZE ((size_t)1 << 40)

// A read transaction that stays open, and a cursor in it. One call or one iterator uses it at a time.
typedef struct {
	_Alignas(CACHE_LINE) atomic_flag used;
	MDB_txn *txn;       // NULL: not yet begun
	MDB_cursor *cursor; // NULL: not yet opened
	size_t writes;      // those that it sees
	int failed;         // the first failure of an iterator's moves, or 0
} reader;

// A batch is a transaction of one thread, but Go may move a goroutine to another one between calls. So
// entries are kept here until apply: two lengths, the key and the value.
typedef struct {
	char *bytes;
	size_t length, capacity;
} entries;

typedef struct {
	store base;
	MDB_env *env;
	MDB_dbi tree;
	atomic_size_t writes; // transactions so far
	entries batch;
	reader readers[READERS];
} lmdb;

// Threads look for a free reader where they found the last one, so that each has its own.
static _Thread_local unsigned usual_reader;

static char *text_of(int rc) { return rc == 0 ? NULL : strdup(mdb_strerror(rc)); }

static MDB_val value_of(const char *bytes, size_t length) {
	MDB_val v = {length, (void *)bytes};
	return v;
}

static void release(reader *r) { atomic_flag_clear_explicit(&r->used, memory_order_release); }

static reader *unused(lmdb *l) {
	for (;; usual_reader = (usual_reader + 1) % READERS) {
		reader *r = &l->readers[usual_reader];
		if (!atomic_flag_test_and_set_explicit(&r->used, memory_order_acquire)) return r;
	}
}

// acquire sets *into to a reader that sees all finished writes. The caller must release it. Until a
// write follows, it is the same transaction again.
static int acquire(lmdb *l, reader **into) {
	reader *r = unused(l);
	size_t writes = atomic_load_explicit(&l->writes, memory_order_acquire);
	int rc = 0;
	if (r->txn == NULL) {
		rc = mdb_txn_begin(l->env, NULL, MDB_RDONLY, &r->txn);
	} else if (r->writes != writes) {
		mdb_txn_reset(r->txn);
		rc = mdb_txn_renew(r->txn);
		if (rc == 0 && r->cursor != NULL) rc = mdb_cursor_renew(r->txn, r->cursor);
	}
	if (rc != 0) {
		release(r);
		return rc;
	}
	r->writes = writes;
	*into = r;
	return 0;
}

static outcome get(store *s, const char *key, size_t key_length, char *into, size_t capacity) {
	lmdb *l = (lmdb *)s;
	outcome o = {-1, NULL};
	MDB_val k = value_of(key, key_length), v;
	reader *r;
	int rc = acquire(l, &r);
	if (rc == 0) {
		rc = mdb_get(r->txn, l->tree, &k, &v);
		if (rc == 0) {
			memcpy(into, v.mv_data, v.mv_size < capacity ? v.mv_size : capacity);
			o.length = (long)v.mv_size;
		}
		release(r);
	}
	if (rc != MDB_NOTFOUND) o.text = text_of(rc);
	return o;
}

static outcome done(int rc) {
	outcome o = {0, text_of(rc)};
	return o;
}

// commit ends a transaction after a write with the result rc.
static outcome commit(lmdb *l, MDB_txn *txn, int rc) {
	if (rc == 0) {
		rc = mdb_txn_commit(txn);
		atomic_fetch_add_explicit(&l->writes, 1, memory_order_release);
	} else {
		mdb_txn_abort(txn);
	}
	return done(rc);
}

static outcome put(store *s, const char *key, size_t key_length, const char *value, size_t value_length) {
	lmdb *l = (lmdb *)s;
	MDB_val k = value_of(key, key_length), v = value_of(value, value_length);
	MDB_txn *txn;
	int rc = mdb_txn_begin(l->env, NULL, 0, &txn);
	return rc == 0 ? commit(l, txn, mdb_put(txn, l->tree, &k, &v, 0)) : done(rc);
}

static outcome remove_key(store *s, const char *key, size_t key_length) {
	lmdb *l = (lmdb *)s;
	MDB_val k = value_of(key, key_length);
	MDB_txn *txn;
	int rc = mdb_txn_begin(l->env, NULL, 0, &txn);
	if (rc != 0) return done(rc);
	rc = mdb_del(txn, l->tree, &k, NULL);
	return commit(l, txn, rc == MDB_NOTFOUND ? 0 : rc);
}

// A failed allocation ends the program, as in Go.
static void add(store *s, const char *key, size_t key_length, const char *value, size_t value_length) {
	entries *b = &((lmdb *)s)->batch;
	size_t lengths[2] = {key_length, value_length}, end = b->length + sizeof lengths + key_length + value_length;
	if (end > b->capacity) {
		b->capacity = 2 * end;
		b->bytes = realloc(b->bytes, b->capacity);
		if (b->bytes == NULL) abort();
	}
	memcpy(b->bytes + b->length, lengths, sizeof lengths);
	memcpy(b->bytes + b->length + sizeof lengths, key, key_length);
	memcpy(b->bytes + b->length + sizeof lengths + key_length, value, value_length);
	b->length = end;
}

static outcome apply(store *s) {
	lmdb *l = (lmdb *)s;
	const char *next = l->batch.bytes, *end = next + l->batch.length;
	MDB_txn *txn;
	int rc = mdb_txn_begin(l->env, NULL, 0, &txn);
	l->batch.length = 0;
	if (rc != 0) return done(rc);
	while (rc == 0 && next < end) {
		size_t lengths[2];
		MDB_val k, v;
		memcpy(lengths, next, sizeof lengths);
		next += sizeof lengths;
		k = value_of(next, lengths[0]);
		v = value_of(next + lengths[0], lengths[1]);
		next += lengths[0] + lengths[1];
		rc = mdb_put(txn, l->tree, &k, &v, 0);
	}
	return commit(l, txn, rc);
}

// There are no memtables.
static outcome flush(store *s) {
	(void)s;
	return done(0);
}

// iterator returns a reader, or NULL if none can be acquired.
static void *iterator(store *s) {
	lmdb *l = (lmdb *)s;
	reader *r;
	if (acquire(l, &r) != 0) return NULL;
	r->failed = r->cursor == NULL ? mdb_cursor_open(r->txn, l->tree, &r->cursor) : 0;
	return r;
}

static place move(void *it, enum move how, const char *key, size_t key_length) {
	static const MDB_cursor_op ops[] = {
		[FIRST] = MDB_FIRST, [LAST] = MDB_LAST, [SEEK] = MDB_SET_RANGE, [NEXT] = MDB_NEXT, [PREV] = MDB_PREV};
	place p = {0};
	reader *r = it;
	MDB_val k = value_of(key, key_length), v;
	int rc;
	if (r == NULL || r->failed != 0) return p;
	rc = mdb_cursor_get(r->cursor, &k, &v, ops[how]);
	if (rc == 0) {
		p.valid = 1;
		p.key = k.mv_data;
		p.key_length = k.mv_size;
		p.value = v.mv_data;
		p.value_length = v.mv_size;
	} else if (rc != MDB_NOTFOUND) {
		r->failed = rc;
	}
	return p;
}

static char *end(void *it) {
	reader *r = it;
	char *text;
	if (r == NULL) return strdup("LMDB cannot begin a read transaction");
	text = text_of(r->failed);
	release(r);
	return text;
}

static void close_store(store *s) {
	lmdb *l = (lmdb *)s;
	for (int i = 0; i < READERS; i++) {
		if (l->readers[i].cursor != NULL) mdb_cursor_close(l->readers[i].cursor);
		if (l->readers[i].txn != NULL) mdb_txn_abort(l->readers[i].txn);
	}
	mdb_env_close(l->env);
	free(l->batch.bytes);
	free(l);
}

// open_tree opens the environment in dir and its only tree.
static int open_tree(lmdb *l, const char *dir, int sync) {
	// A transaction belongs to a reader here, not to a thread.
	unsigned flags = MDB_NOTLS | (sync ? 0 : MDB_NOSYNC);
	MDB_txn *txn;
	int rc;
	if ((rc = mdb_env_set_mapsize(l->env, MAP_SIZE)) != 0) return rc;
	if ((rc = mdb_env_set_maxreaders(l->env, READERS)) != 0) return rc;
	if ((rc = mdb_env_open(l->env, dir, flags, FILE_MODE)) != 0) return rc;
	if ((rc = mdb_txn_begin(l->env, NULL, 0, &txn)) != 0) return rc;
	if ((rc = mdb_dbi_open(txn, NULL, 0, &l->tree)) == 0) return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

store *open_lmdb(const char *dir, settings with, char **error) {
	lmdb *l = aligned_alloc(CACHE_LINE, sizeof *l);
	int rc;
	if (l == NULL) abort();
	memset(l, 0, sizeof *l);
	if ((rc = mdb_env_create(&l->env)) == 0 && (rc = open_tree(l, dir, with.sync)) != 0) mdb_env_close(l->env);
	if (rc != 0) {
		*error = text_of(rc);
		free(l);
		return NULL;
	}
	l->base.get = get;
	l->base.put = put;
	l->base.remove = remove_key;
	l->base.flush = flush;
	l->base.close = close_store;
	l->base.add = add;
	l->base.apply = apply;
	l->base.iterator = iterator;
	l->base.move = move;
	l->base.end = end;
	return &l->base;
}
