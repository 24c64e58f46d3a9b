package leveldb_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// folding ignores case.
type folding struct{}

func (folding) Name() string                      { return "test.Folding" }
func (folding) Compare(a, b []byte) int           { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) }
func (folding) Separator(dst, a, b []byte) []byte { return nil }
func (folding) Successor(dst, b []byte) []byte    { return nil }

// A comparer may call keys equal whose bytes differ. Get did not find such a key in a memtable.
func TestKeysThatAComparerCallsEqual(t *testing.T) {
	d := open(t, storage.NewMemStorage(), &opt.Options{Comparer: folding{}})
	var keys []string
	for _, key := range []string{"abc", "ABC", "aBD"} {
		must(t, d.Put([]byte(key), []byte(key), nil))
	}
	value, err := d.Get([]byte("abC"), nil)
	must(t, err)
	equal(t, "ABC", string(value))
	has, err := d.Has([]byte("abd"), nil)
	must(t, err)
	equal(t, true, has)
	it := d.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		keys = append(keys, string(it.Key()))
	}
	if !slices.Equal(keys, []string{"ABC", "aBD"}) {
		t.Fatal(keys)
	}
}
