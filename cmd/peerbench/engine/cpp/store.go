//go:build cgo && (leveldb || rocksdb || lmdb)

package cpp

/*
#include <stdlib.h>
#include "store.h"

#cgo noescape store_get
#cgo nocallback store_get
#cgo noescape store_put
#cgo nocallback store_put
#cgo noescape store_remove
#cgo nocallback store_remove
#cgo noescape store_add
#cgo nocallback store_add
#cgo noescape store_move
#cgo nocallback store_move

// cgo cannot call through pointers.
static outcome store_get(store *s, const char *key, size_t n, char *into, size_t capacity) { return s->get(s, key, n, into, capacity); }
static outcome store_put(store *s, const char *key, size_t n, const char *value, size_t m) { return s->put(s, key, n, value, m); }
static outcome store_remove(store *s, const char *key, size_t n) { return s->remove(s, key, n); }
static outcome store_flush(store *s) { return s->flush(s); }
static int store_working(store *s) { return s->working != NULL && s->working(s); }
static void store_close(store *s) { s->close(s); }
static void store_add(store *s, const char *key, size_t n, const char *value, size_t m) { s->add(s, key, n, value, m); }
static outcome store_apply(store *s) { return s->apply(s); }
static void *store_iterator(store *s) { return s->iterator(s); }
static place store_move(store *s, void *it, enum move how, const char *key, size_t n) { return s->move(it, how, key, n); }
static char *store_end(store *s, void *it) { return s->end(it); }
*/
import "C"

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// store is an open store of one of the libraries.
type store struct{ c *C.store }

// opener returns a driver's Open function that calls a library's.
func opener(separateFrom int, open func(dir *C.char, s C.settings, err **C.char) *C.store) func(string, engine.Options) (engine.Engine, error) {
	return func(dir string, o engine.Options) (engine.Engine, error) {
		name := C.CString(dir)
		defer C.free(unsafe.Pointer(name))
		with := C.settings{
			filter_bits:        engine.FilterBits,
			cache_bytes:        C.size_t(o.CacheBytes),
			write_buffer_bytes: engine.WriteBufferSize,
			background_jobs:    engine.BackgroundJobs,
			open_files:         C.int(o.OpenFiles),
			separate_from:      C.size_t(separateFrom),
		}
		if o.Sync {
			with.sync = 1
		}
		var text *C.char
		c := open(name, with, &text)
		if err := libraryError(text); err != nil {
			return nil, err
		}
		return &store{c}, nil
	}
}

// libraryError returns a library's error text as an error, and frees it.
func libraryError(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return errors.New(C.GoString(text))
}

// chars returns a pointer to the bytes of b for the duration of one call.
func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

func (s *store) Get(dst, key []byte) ([]byte, bool, error) {
	for {
		o := C.store_get(s.c, chars(key), C.size_t(len(key)), chars(dst[len(dst):cap(dst)]), C.size_t(cap(dst)-len(dst)))
		if o.text != nil || o.length < 0 {
			return dst, false, libraryError(o.text)
		}
		length := int(o.length)
		if length <= cap(dst)-len(dst) {
			return dst[:len(dst)+length], true, nil
		}
		dst = slices.Grow(dst, length)
	}
}

func (s *store) Put(key, value []byte) error {
	return libraryError(C.store_put(s.c, chars(key), C.size_t(len(key)), chars(value), C.size_t(len(value))).text)
}

func (s *store) Delete(key []byte) error {
	return libraryError(C.store_remove(s.c, chars(key), C.size_t(len(key))).text)
}

func (s *store) Apply(n int, entry func(i int) (key, value []byte)) error {
	for i := range n {
		key, value := entry(i)
		C.store_add(s.c, chars(key), C.size_t(len(key)), chars(value), C.size_t(len(value)))
	}
	return libraryError(C.store_apply(s.c).text)
}

func (s *store) Flush() error { return libraryError(C.store_flush(s.c).text) }

// Working returns false if the library does not say.
func (s *store) Working() (bool, error) { return C.store_working(s.c) != 0, nil }

func (s *store) Close() error {
	C.store_close(s.c)
	return nil
}

func (s *store) NewIterator(engine.IterOptions) (engine.Iterator, error) {
	return &iterator{store: s.c, c: C.store_iterator(s.c)}, nil
}

type iterator struct {
	store *C.store
	c     unsafe.Pointer
	at    C.place
}

func (it *iterator) move(how uint32, key []byte) bool {
	it.at = C.store_move(it.store, it.c, how, chars(key), C.size_t(len(key)))
	return it.at.valid != 0
}

func (it *iterator) First() bool          { return it.move(C.FIRST, nil) }
func (it *iterator) Last() bool           { return it.move(C.LAST, nil) }
func (it *iterator) Seek(key []byte) bool { return it.move(C.SEEK, key) }
func (it *iterator) Next() bool           { return it.move(C.NEXT, nil) }
func (it *iterator) Prev() bool           { return it.move(C.PREV, nil) }

func (it *iterator) Key() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(it.at.key)), int(it.at.key_length))
}

func (it *iterator) Value() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(it.at.value)), int(it.at.value_length))
}

func (it *iterator) Close() error { return libraryError(C.store_end(it.store, it.c)) }
