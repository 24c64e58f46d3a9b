package leveldb_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// writesOf returns the writes of a batch.
func writesOf(t *testing.T, b *leveldb.Batch) []string {
	t.Helper()
	var r recorder
	must(t, b.Replay(&r))
	return r.writes
}

type recorder struct{ writes []string }

func (r *recorder) Put(key, value []byte) {
	r.writes = append(r.writes, fmt.Sprintf("%s=%s", key, value))
}
func (r *recorder) Delete(key []byte) { r.writes = append(r.writes, fmt.Sprintf("-%s", key)) }

func equal[T any](t *testing.T, want, got T) {
	t.Helper()
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// Programs return batches by value, as incognito-chain does, and keep a copy when they reset one. Writing a
// copy failed.
func TestABatchMayBeCopied(t *testing.T) {
	build := func() leveldb.Batch {
		b := new(leveldb.Batch)
		b.Put([]byte("a"), []byte("1"))
		b.Delete([]byte("b"))
		return *b
	}
	b := build()
	c := b
	c.Put([]byte("c"), []byte("3"))
	equal(t, []string{"a=1", "-b"}, writesOf(t, &b))
	equal(t, []string{"a=1", "-b", "c=3"}, writesOf(t, &c))
	saved := c
	c.Reset()
	equal(t, 3, saved.Len())
	d := open(t, storage.NewMemStorage(), nil)
	must(t, d.Write(&saved, nil))
	must(t, d.Write(&b, nil))
	equal(t, 2, count(t, d))
	b, saved = saved, b
	equal(t, []string{"a=1", "-b", "c=3"}, writesOf(t, &b))
	equal(t, []string{"a=1", "-b"}, writesOf(t, &saved))
	b = leveldb.Batch{}
	equal(t, 0, b.Len()+len(b.Dump()))
}

// A copy whose original has other writes by now has nothing that could be written, and says so.
func TestALostCopyIsRefused(t *testing.T) {
	var b leveldb.Batch
	b.Put([]byte("a"), nil)
	c := b
	b.Reset()
	b.Put([]byte("other"), nil)
	d := open(t, storage.NewMemStorage(), nil)
	if err := d.Write(&c, nil); err == nil || c.Replay(&recorder{}) == nil {
		t.Fatal("the copy is written without its writes")
	}
	c.Reset()
	c.Put([]byte("b"), nil)
	must(t, d.Write(&c, nil))
	equal(t, []string{"other="}, writesOf(t, &b))
}

// A write that is too large was left out by Transaction.Write and Replay, without an error.
func TestATooLargeWriteIsNeverLeftOut(t *testing.T) {
	var b leveldb.Batch
	b.Put([]byte("small"), nil)
	b.Put(bytes.Repeat([]byte("large"), 1<<20), nil)
	d := open(t, storage.NewMemStorage(), nil)
	tr, err := d.OpenTransaction()
	must(t, err)
	if tr.Write(&b, nil) == nil {
		t.Error("Transaction.Write returns nil")
	}
	must(t, tr.Commit())
	if d.Write(&b, nil) == nil {
		t.Error("Write returns nil")
	}
	var r recorder
	if b.Replay(&r) == nil || r.writes != nil {
		t.Errorf("Replay returns nil, or a part: %v", r.writes)
	}
	equal(t, 0, count(t, d))
	equal(t, 2, b.Len())
	b.Reset()
	b.Put([]byte("small"), nil)
	must(t, d.Write(&b, nil))
}
