// Fills a store's table of functions for the library whose names start with LIBRARY. The including
// file defines LIBRARY, get and flush.

#include <stdlib.h>
#include <string.h>

#define JOIN_AGAIN(a, b) a##b
#define JOIN(a, b) JOIN_AGAIN(a, b)
#define CALL(name) JOIN(LIBRARY, name)
#define TYPE(name) JOIN(LIBRARY, name##_t)

static outcome put(store *s, const char *key, size_t key_length, const char *value, size_t value_length) {
	outcome o = {0, NULL};
	CALL(_put)(s->handle, s->writes, key, key_length, value, value_length, &o.text);
	return o;
}

static outcome remove_key(store *s, const char *key, size_t key_length) {
	outcome o = {0, NULL};
	CALL(_delete)(s->handle, s->writes, key, key_length, &o.text);
	return o;
}

static void add(store *s, const char *key, size_t key_length, const char *value, size_t value_length) {
	CALL(_writebatch_put)(s->batch, key, key_length, value, value_length);
}

static outcome apply(store *s) {
	outcome o = {0, NULL};
	CALL(_write)(s->handle, s->writes, s->batch, &o.text);
	CALL(_writebatch_clear)(s->batch);
	return o;
}

static void *iterator(store *s) { return CALL(_create_iterator)(s->handle, s->reads); }

static place move(void *it, enum move how, const char *key, size_t key_length) {
	place p = {0};
	switch (how) {
	case FIRST: CALL(_iter_seek_to_first)(it); break;
	case LAST: CALL(_iter_seek_to_last)(it); break;
	case SEEK: CALL(_iter_seek)(it, key, key_length); break;
	case NEXT: CALL(_iter_next)(it); break;
	case PREV: CALL(_iter_prev)(it); break;
	}
	p.valid = CALL(_iter_valid)(it);
	if (p.valid) {
		p.key = CALL(_iter_key)(it, &p.key_length);
		p.value = CALL(_iter_value)(it, &p.value_length);
	}
	return p;
}

static char *end(void *it) {
	char *error = NULL;
	CALL(_iter_get_error)(it, &error);
	CALL(_iter_destroy)(it);
	return error;
}

static void close_store(store *s) {
	CALL(_writebatch_destroy)(s->batch);
	CALL(_readoptions_destroy)(s->reads);
	CALL(_writeoptions_destroy)(s->writes);
	CALL(_close)(s->handle);
	free(s);
}

// new_store opens dir. The objects in the options are never freed, since a process opens only one or
// two stores.
static store *new_store(const char *dir, TYPE(_options) *options, int sync, char **error) {
	store *s;
	void *handle = CALL(_open)(options, dir, error);
	if (*error != NULL) return NULL;
	s = calloc(1, sizeof *s);
	s->handle = handle;
	s->reads = CALL(_readoptions_create)();
	CALL(_readoptions_set_verify_checksums)(s->reads, 1);
	s->writes = CALL(_writeoptions_create)();
	CALL(_writeoptions_set_sync)(s->writes, sync);
	s->batch = CALL(_writebatch_create)();
	s->get = get;
	s->put = put;
	s->remove = remove_key;
	s->flush = flush;
	s->close = close_store;
	s->add = add;
	s->apply = apply;
	s->iterator = iterator;
	s->move = move;
	s->end = end;
	return s;
}
