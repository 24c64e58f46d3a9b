package testutil

import (
	"fmt"
	"math/rand"

	"github.com/onsi/ginkgo"
	"github.com/onsi/gomega"

	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// TestFind finds each pair by its key and by a key before that.
func TestFind(db Find, kv KeyValue) {
	ShuffledIndex(nil, kv.Len(), 1, func(i int) {
		inexact, key, value := kv.IndexInexact(i)
		for _, k := range [][]byte{key, inexact} {
			foundKey, foundValue, err := db.TestFind(k)
			gomega.Expect(err).NotTo(gomega.HaveOccurred(), "find of %q, before %q", k, key)
			gomega.Expect(foundKey).To(gomega.Equal(key), "find of %q", k)
			gomega.Expect(foundValue).To(gomega.Equal(value), "find of %q, before %q", k, key)
		}
	})
}

// TestFindAfterLast finds nothing after the last pair.
func TestFindAfterLast(db Find, kv KeyValue) {
	var key []byte
	if n := kv.Len(); n > 0 {
		key = BytesAfter(kv.KeyAt(n - 1))
	}
	found, _, err := db.TestFind(key)
	gomega.Expect(err).To(gomega.Equal(errors.ErrNotFound), "find of %q: %q", key, found)
}

// TestGet gets each pair, and nothing between them.
func TestGet(db Get, kv KeyValue) {
	ShuffledIndex(nil, kv.Len(), 1, func(i int) {
		inexact, key, value := kv.IndexInexact(i)
		got, err := db.TestGet(key)
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "get of %q", key)
		gomega.Expect(got).To(gomega.Equal(value), "get of %q", key)
		if len(inexact) > 0 {
			_, err := db.TestGet(inexact)
			gomega.Expect(err).To(gomega.Equal(errors.ErrNotFound), "get of %q", inexact)
		}
	})
}

// TestHas looks for each key, and between them.
func TestHas(db Has, kv KeyValue) {
	ShuffledIndex(nil, kv.Len(), 1, func(i int) {
		inexact, key, _ := kv.IndexInexact(i)
		has, err := db.TestHas(key)
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "has of %q", key)
		gomega.Expect(has).To(gomega.BeTrue(), "has of %q", key)
		if len(inexact) > 0 {
			has, err := db.TestHas(inexact)
			gomega.Expect(err).NotTo(gomega.HaveOccurred(), "has of %q", inexact)
			gomega.Expect(has).To(gomega.BeFalse(), "has of %q", inexact)
		}
	})
}

// TestIter is DoIteratorTesting of an iterator over a range; nil: all.
func TestIter(db NewIterator, r *util.Range, kv KeyValue) {
	iter := db.TestNewIterator(r)
	gomega.Expect(iter.Error()).NotTo(gomega.HaveOccurred())
	DoIteratorTesting(&IteratorTesting{KeyValue: kv, Iter: iter})
	iter.Release()
}

// ifHas returns a test of a DB that has the methods of T, and an empty one for others.
func ifHas[T any](db *DB, test func(T)) func() {
	return func() {
		if d, ok := (*db).(T); ok {
			test(d)
		}
	}
}

// seconds is how long a test of iterators may take.
const seconds = 200.0

// KeyValueTesting defines the tests of a database that has the pairs kv. If p is nil, setup makes it
// before each test. setup and teardown may be nil.
func KeyValueTesting(rnd *rand.Rand, kv KeyValue, p DB, setup func(KeyValue) DB, teardown func(DB)) {
	rnd = orNewRand(rnd)
	if p == nil {
		ginkgo.BeforeEach(func() { p = setup(kv) })
		if teardown != nil {
			ginkgo.AfterEach(func() { teardown(p) })
		}
	}
	iterates := func(test func(NewIterator)) func(ginkgo.Done) {
		return func(done ginkgo.Done) {
			ifHas(&p, test)()
			done <- true
		}
	}
	ginkgo.It("finds all keys", ifHas(&p, func(db Find) { TestFind(db, kv) }))
	ginkgo.It("finds nothing after the last key", ifHas(&p, func(db Find) { TestFindAfterLast(db, kv) }))
	ginkgo.It("gets the keys that it has", ifHas(&p, func(db Get) { TestGet(db, kv) }))
	ginkgo.It("has the keys that it has", ifHas(&p, func(db Has) { TestHas(db, kv) }))
	ginkgo.It("iterates", iterates(func(db NewIterator) { TestIter(db, nil, kv.Clone()) }), seconds)
	ginkgo.It("iterates over ranges with one bound", iterates(func(db NewIterator) {
		RandomIndex(rnd, kv.Len(), min(kv.Len(), 50), func(i int) {
			key, _, _ := kv.IndexInexact(i)
			ginkgo.By(fmt.Sprintf("index %d", i), func() {
				TestIter(db, &util.Range{Start: key}, kv.Slice(i, kv.Len()))
				TestIter(db, &util.Range{Limit: key}, kv.Slice(0, i))
			})
		})
	}), seconds)
	ginkgo.It("iterates over ranges with two bounds", iterates(func(db NewIterator) {
		RandomRange(rnd, kv.Len(), min(kv.Len(), 50), func(start, limit int) {
			ginkgo.By(fmt.Sprintf("range %d to %d", start, limit), func() {
				r := kv.Range(start, limit)
				TestIter(db, &r, kv.Slice(start, limit))
			})
		})
	}), seconds)
}

// AllKeyValueTesting defines KeyValueTesting with many sets of pairs. body makes the database when the
// tests are defined, setup before they run, with Defer.
func AllKeyValueTesting(rnd *rand.Rand, body, setup func(KeyValue) DB, teardown func(DB)) {
	test := func(name string, kv *KeyValue) {
		ginkgo.Describe(name, func() {
			var p DB
			if setup != nil {
				Defer("setup", func() { p = setup(*kv) })
			}
			if teardown != nil {
				Defer("teardown", func() { teardown(p) })
			}
			if body != nil {
				p = body(*kv)
			}
			KeyValueTesting(rnd, *kv, p, func(KeyValue) DB { return p }, nil)
		})
	}
	test("without pairs", &KeyValue{})
	test("with an empty key", KeyValue_EmptyKey())
	test("with empty values", KeyValue_EmptyValue())
	test("with one pair", KeyValue_OneKeyValue())
	test("with a big value", KeyValue_BigValue())
	test("with a special key", KeyValue_SpecialKey())
	test("with several pairs", KeyValue_MultipleKeyValue())
	test("with generated pairs, 2 apart", KeyValue_Generate(nil, 120, 2, 1, 50, 10, 120))
	test("with generated pairs, 3 apart", KeyValue_Generate(nil, 120, 3, 1, 50, 10, 120))
}
