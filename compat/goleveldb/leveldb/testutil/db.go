package testutil

import (
	"fmt"
	"math/rand"

	"github.com/onsi/gomega"

	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// DB is a database under test: one with some of the methods of the interfaces below.
type DB interface{}

// Put is a DB that writes.
type Put interface {
	TestPut(key []byte, value []byte) error
}

// Delete is a DB that deletes.
type Delete interface {
	TestDelete(key []byte) error
}

// Find is a DB that finds the pair at or after a key.
type Find interface {
	TestFind(key []byte) (rkey, rvalue []byte, err error)
}

// Get is a DB that reads.
type Get interface {
	TestGet(key []byte) (value []byte, err error)
}

// Has is a DB that knows whether a key is present.
type Has interface {
	TestHas(key []byte) (ret bool, err error)
}

// NewIterator is a DB with iterators.
type NewIterator interface {
	TestNewIterator(slice *util.Range) iterator.Iterator
}

// DBAct is a write. DBDeleteNA is a deletion of an absent key.
type DBAct int

// The writes.
const (
	DBNone DBAct = iota
	DBPut
	DBOverwrite
	DBDelete
	DBDeleteNA
)

// String returns the name of the write.
func (a DBAct) String() string {
	names := [...]string{"none", "put", "overwrite", "delete", "delete_na"}
	if a < 0 || int(a) >= len(names) {
		return "unknown"
	}
	return names[a]
}

// DBTesting writes to a database and compares it with what it wrote.
type DBTesting struct {
	Rand *rand.Rand
	DB   interface {
		Get
		Put
		Delete
	}
	PostFn             func(t *DBTesting) // called after each write; may be nil
	Deleted, Present   KeyValue           // the keys that are absent and present
	Act, LastAct       DBAct
	ActKey, LastActKey []byte
}

func (t *DBTesting) act(act DBAct, key []byte) {
	t.LastAct, t.LastActKey, t.Act, t.ActKey = t.Act, t.ActKey, act, key
}

func (t *DBTesting) written(err error) {
	gomega.Expect(err).NotTo(gomega.HaveOccurred(), t.Text())
}

func (t *DBTesting) post() {
	if t.PostFn != nil {
		t.PostFn(t)
	}
}

// Text describes the last writes.
func (t *DBTesting) Text() string {
	return fmt.Sprintf("DBTesting after %v of %q and %v of %q", t.LastAct, t.LastActKey, t.Act, t.ActKey)
}

// TestPresentKV checks the value of a key.
func (t *DBTesting) TestPresentKV(key, value []byte) {
	got, err := t.DB.TestGet(key)
	gomega.Expect(err).NotTo(gomega.HaveOccurred(), "get of %q, %s", key, t.Text())
	gomega.Expect(got).To(gomega.Equal(value), "value of %q, %s", key, t.Text())
}

// TestAllPresent checks all keys that should be present.
func (t *DBTesting) TestAllPresent() {
	t.Present.IterateShuffled(t.Rand, func(_ int, key, value []byte) { t.TestPresentKV(key, value) })
}

// TestDeletedKey checks that a key is absent.
func (t *DBTesting) TestDeletedKey(key []byte) {
	_, err := t.DB.TestGet(key)
	gomega.Expect(err).To(gomega.Equal(errors.ErrNotFound), "get of the deleted %q, %s", key, t.Text())
}

// TestAllDeleted checks all keys that should be absent.
func (t *DBTesting) TestAllDeleted() {
	t.Deleted.IterateShuffled(t.Rand, func(_ int, key, _ []byte) { t.TestDeletedKey(key) })
}

// TestAll checks all keys in random order.
func (t *DBTesting) TestAll() {
	deleted := t.Deleted.Len()
	ShuffledIndex(t.Rand, deleted+t.Present.Len(), 1, func(i int) {
		if i < deleted {
			t.TestDeletedKey(t.Deleted.KeyAt(i))
		} else {
			t.TestPresentKV(t.Present.Index(i - deleted))
		}
	})
}

// Put writes a value and reads it.
func (t *DBTesting) Put(key, value []byte) {
	act := DBOverwrite
	if t.Present.PutU(key, value) {
		act = DBPut
	}
	t.act(act, key)
	t.Deleted.Delete(key)
	t.written(t.DB.TestPut(key, value))
	t.TestPresentKV(key, value)
	t.post()
}

// PutRandom writes one of the deleted keys, and reports whether there is one.
func (t *DBTesting) PutRandom() bool {
	n := t.Deleted.Len()
	if n > 0 {
		t.Put(t.Deleted.Index(t.Rand.Intn(n)))
	}
	return n > 0
}

// Delete deletes a key and looks for it.
func (t *DBTesting) Delete(key []byte) {
	act := DBDeleteNA
	if present, value := t.Present.Delete(key); present {
		act = DBDelete
		t.Deleted.PutU(key, value)
	}
	t.act(act, key)
	t.written(t.DB.TestDelete(key))
	t.TestDeletedKey(key)
	t.post()
}

// DeleteRandom deletes one of the present keys, and reports whether there is one.
func (t *DBTesting) DeleteRandom() bool {
	n := t.Present.Len()
	if n > 0 {
		t.Delete(t.Present.KeyAt(t.Rand.Intn(n)))
	}
	return n > 0
}

// RandomAct writes or deletes, round times.
func (t *DBTesting) RandomAct(round int) {
	for range round {
		if t.Rand.Intn(2) == 0 {
			t.PutRandom()
		} else {
			t.DeleteRandom()
		}
	}
}

// DoDBTesting makes many random writes, and checks an iterator at the end.
func DoDBTesting(t *DBTesting) {
	t.Rand = orNewRand(t.Rand)
	t.DeleteRandom()
	t.PutRandom()
	t.DeleteRandom()
	t.DeleteRandom()
	for range t.Deleted.Len()/2 + 1 {
		t.PutRandom()
	}
	t.RandomAct(10 * (t.Deleted.Len() + t.Present.Len()))
	if db, ok := t.DB.(NewIterator); ok {
		TestIter(db, nil, t.Present)
	}
}
