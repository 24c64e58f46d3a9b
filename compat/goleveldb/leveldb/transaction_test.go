package leveldb_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// temporaries returns how many temporary tables a directory has.
func temporaries(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.dbtmp"))
	must(t, err)
	return len(names)
}

// A transaction kept all of its writes in memory, and was limited to 1 GiB.
func TestATransactionWritesTablesBeyondTheWriteBuffer(t *testing.T) {
	const n = 5000
	dir := t.TempDir()
	d, err := leveldb.OpenFile(dir, &opt.Options{WriteBuffer: 64 << 10})
	must(t, err)
	defer d.Close()
	fill(t, d, 10)
	for _, commit := range []bool{false, true} {
		tr, err := d.OpenTransaction()
		must(t, err)
		for i := range 2 * n { // each key twice, in no order
			must(t, tr.Put(fmt.Appendf(nil, "tx %04d", i*7919%n), fmt.Appendf(nil, "%d %s", i, strings.Repeat("v", 100)), nil))
		}
		must(t, tr.Delete([]byte("key 0000"), nil))
		if temporaries(t, dir) < 5 {
			t.Errorf("%d tables", temporaries(t, dir))
		}
		it := tr.NewIterator(nil, nil)
		for i := range n {
			must(t, tr.Put(fmt.Appendf(nil, "later %04d", i), make([]byte, 50), nil))
		}
		inside := 0
		for it.Next() {
			inside++
		}
		must(t, it.Error())
		equal(t, 9+n, inside)
		value, err := tr.Get([]byte("tx 0000"), nil)
		must(t, err)
		equal(t, fmt.Sprintf("%d %s", n, strings.Repeat("v", 100)), string(value))
		if _, err := tr.Get([]byte("key 0000"), nil); err != leveldb.ErrNotFound {
			t.Errorf("a deleted key: %v", err)
		}
		equal(t, 10, count(t, d))
		if !commit {
			tr.Discard()
			equal(t, 10, count(t, d))
		} else {
			must(t, tr.Commit())
			equal(t, 9+2*n, count(t, d))
		}
		// The iterator still shows what it showed.
		if !it.First() || string(it.Key()) != "key 0001" || !it.Last() || string(it.Key()) != fmt.Sprintf("tx %04d", n-1) {
			t.Errorf("the iterator is at %q: %v", it.Key(), it.Error())
		}
		it.Release()
		equal(t, 0, temporaries(t, dir))
	}
}
