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

// Dump copied the whole batch. cosmos-db asks for its length before each write, which made a batch of n writes
// copy n²/2 of them.
func TestDumpNeitherAllocatesNorCopies(t *testing.T) {
	b := leveldb.MakeBatch(1 << 20)
	key, value := []byte("a key"), make([]byte, 100)
	size := 0
	if n := testing.AllocsPerRun(1000, func() {
		size += len(b.Dump()) // as cosmos-db's goLevelDBBatch.Set does
		b.Put(key, value)
	}); n != 0 {
		t.Errorf("%v allocations for each Dump and Put", n)
	}
	if first, second := b.Dump(), b.Dump(); size == 0 || &first[0] != &second[0] {
		t.Error("Dump copies")
	}
	b.Reset()
	var zero leveldb.Batch
	if n := testing.AllocsPerRun(100, func() { size = len(b.Dump()) + len(zero.Dump()) }); n != 0 || size != 0 {
		t.Errorf("%v allocations for %d bytes of empty batches", n, size)
	}
}

// What Dump returned may be loaded into the same batch, and into others while it is written.
func TestABatchLoadsItsOwnDump(t *testing.T) {
	var b leveldb.Batch
	for i := range 100 {
		b.Put(fmt.Appendf(nil, "key %d", i), bytes.Repeat([]byte{byte(i)}, i))
		b.Delete(fmt.Appendf(nil, "gone %d", i))
	}
	want := writesOf(t, &b)
	must(t, b.Load(b.Dump()))
	equal(t, want, writesOf(t, &b))
	var other leveldb.Batch
	d := open(t, storage.NewMemStorage(), nil)
	done := make(chan error, 1)
	go func() { done <- d.Write(&b, nil) }()
	must(t, other.Load(b.Dump()))
	must(t, <-done)
	equal(t, want, writesOf(t, &other))
	equal(t, 100, count(t, d))
}

func TestMakeBatchAllocatesItsCapacity(t *testing.T) {
	const room = 5 << 20 // more than Reset keeps
	key, value := []byte("key"), make([]byte, 1<<10)
	for name, b := range map[string]*leveldb.Batch{
		"MakeBatch": leveldb.MakeBatch(room), "config": leveldb.MakeBatchWithConfig(&leveldb.BatchConfig{InitialCapacity: room}),
	} {
		if n := testing.AllocsPerRun(room/len(value)-100, func() { b.Put(key, value) }); n != 0 {
			t.Errorf("%s: %v allocations for each Put within the capacity", name, n)
		}
	}
	equal(t, 0, leveldb.MakeBatch(-1).Len())
}

// Each entry was copied by itself, which took 3 times as long as in goleveldb.
func BenchmarkLoadIntoAReusedBatch(b *testing.B) {
	var from, to leveldb.Batch
	for i := range 10_000 {
		from.Put(fmt.Appendf(nil, "key %d", i), make([]byte, 100))
	}
	data := from.Dump()
	b.ReportAllocs()
	for range b.N {
		if err := to.Load(data); err != nil || to.Len() != 10_000 {
			b.Fatal(err, to.Len())
		}
	}
}

// A damaged batch, and one with a write that DB.Write refuses, load as far as they did one by one.
func TestLoadKeepsTheWritesBeforeTheDamage(t *testing.T) {
	var from, b leveldb.Batch
	from.Put([]byte("a"), []byte("1"))
	from.Delete([]byte("b"))
	sound := len(from.Dump())
	from.Put([]byte("c"), []byte("3"))
	data := append([]byte(nil), from.Dump()...)
	must(t, b.Load(data[:sound]))
	equal(t, []string{"a=1", "-b"}, writesOf(t, &b))
	if err := b.Load(data[:len(data)-1]); err == nil {
		t.Fatal("a cut value is loaded")
	}
	equal(t, []string{"a=1", "-b"}, writesOf(t, &b))
	// A length that takes more bytes than it needs.
	must(t, b.Load([]byte{1, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 'k', 1, 'v', 0, 1, 'd'}))
	equal(t, []string{"k=v", "-d"}, writesOf(t, &b))
	from.Put(bytes.Repeat([]byte("large"), 1<<20), nil)
	must(t, b.Load(from.Dump()))
	data = append(append([]byte(nil), data...), 1, 0xc1, 0x84, 0x3d) // a key of 1,000,001 bytes
	data = append(append(data, make([]byte, 1_000_001)...), 0)
	must(t, b.Load(data))
	equal(t, 4, b.Len())
}
