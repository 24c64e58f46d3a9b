package table_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/table"
	"github.com/syndtr/goleveldb/leveldb/util"
)

type pair struct{ key, value string }

// write returns a table of the pairs.
func write(t testing.TB, o *opt.Options, pairs []pair) []byte {
	t.Helper()
	var file bytes.Buffer
	w := table.NewWriter(&file, o, nil, 0)
	for _, p := range pairs {
		if err := w.Append([]byte(p.key), []byte(p.value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// read returns the pairs of a table, in order and in reverse.
func read(data []byte, o *opt.Options) (forward, backward []pair, err error) {
	r, err := table.NewReader(bytes.NewReader(data), int64(len(data)), storage.FileDesc{Type: storage.TypeTable, Num: 5}, nil, nil, o)
	if err != nil {
		return nil, nil, err
	}
	defer r.Release()
	walk := func(start, move func(iterator.Iterator) bool) (pairs []pair, err error) {
		it := r.NewIterator(nil, nil)
		defer it.Release()
		for ok := start(it); ok; ok = move(it) {
			pairs = append(pairs, pair{string(it.Key()), string(it.Value())})
		}
		return pairs, it.Error()
	}
	if forward, err = walk(iterator.Iterator.First, iterator.Iterator.Next); err == nil {
		backward, err = walk(iterator.Iterator.Last, iterator.Iterator.Prev)
	}
	for _, p := range forward[:min(len(forward), 20)] {
		_, _ = r.Get([]byte(p.key), nil)
		_, _, _ = r.Find([]byte(p.key), true, nil)
		_, _ = r.OffsetOf([]byte(p.key))
	}
	return forward, backward, err
}

func allocated() uint64 {
	s := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64()
}

// assemble returns a table of one data block with these bytes, stored as kind.
func assemble(block []byte, kind byte, copies int) []byte {
	var file []byte
	add := func(content []byte, kind byte) []byte {
		h := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(file))), uint64(len(content)))
		stored := append(bytes.Clone(content), kind)
		file = binary.LittleEndian.AppendUint32(append(file, stored...), util.NewCRC(stored).Value())
		return h
	}
	data := add(block, kind)
	empty := []byte{0, 0, 0, 0, 1, 0, 0, 0}
	meta := add(empty, 0)
	var index []byte
	for i := range copies {
		index = append(index, 0, 2, byte(len(data)), 'z', byte(i))
		index = append(index, data...)
	}
	foot := append(meta, add(append(index, empty...), 0)...)
	file = append(file, append(foot, make([]byte, 40-len(foot))...)...)
	return binary.LittleEndian.AppendUint64(file, 0xdb4775248b80fb57)
}

// bombs are small tables that stand for far more than they have.
func bombs() map[string][]byte {
	long := binary.AppendUvarint([]byte{0}, 10_000)
	long = append(append(long, 0), make([]byte, 10_000)...)
	for range 10_000 {
		long = append(binary.AppendUvarint(long, 10_000), 1, 0, 'k')
	}
	long = binary.LittleEndian.AppendUint32(append(long, 0, 0, 0, 0), 1)
	entries := append(bytes.Repeat([]byte{0, 0, 100}, 1), make([]byte, 100)...)
	one := append(bytes.Repeat(entries, 100), 0, 0, 0, 0, 1, 0, 0, 0)
	return map[string][]byte{
		"keys that share a long key":      assemble(long, 0, 1),
		"a Snappy length of four GB":      assemble(append(binary.AppendUvarint(nil, 1<<32-1), 0, 0), 1, 1),
		"an index that repeats one block": assemble(one, 0, 100),
	}
}

// The bug: a table of 50 kB allocated 2.5 GB. goleveldb does the same.
func TestSmallTablesAllocateLittle(t *testing.T) {
	for name, data := range bombs() {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			if _, _, err := read(data, nil); err == nil {
				t.Error("want an error")
			}
			if took := allocated() - before; took > 16<<20 {
				t.Errorf("%d bytes allocated for a table of %d", took, len(data))
			}
		})
	}
}

// What a Writer writes is read, whatever the restart interval and the keys are.
func TestAWriterKeepsWithinTheBoundOfTheReader(t *testing.T) {
	o := &opt.Options{BlockSize: 8 << 20, BlockRestartInterval: 1 << 20, Compression: opt.NoCompression}
	var pairs []pair
	for i := range 3000 {
		pairs = append(pairs, pair{fmt.Sprintf("%010000d", i), ""})
	}
	got, _, err := read(write(t, o, pairs), o)
	if err != nil || len(got) != len(pairs) {
		t.Fatalf("%d of %d entries, %v", len(got), len(pairs), err)
	}
}

func FuzzReader(f *testing.F) {
	var pairs []pair
	for i := range 50 {
		pairs = append(pairs, pair{fmt.Sprintf("key%03d", i), fmt.Sprint("value", i)})
	}
	o := &opt.Options{BlockSize: 100, Filter: filter.NewBloomFilter(10)}
	f.Add(write(f, o, pairs))
	f.Add(write(f, &opt.Options{Compression: opt.NoCompression}, pairs))
	f.Add(write(f, &opt.Options{BlockSize: 200, BlockRestartInterval: 1}, pairs))
	f.Add(write(f, nil, nil))
	for _, data := range bombs() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stop := time.AfterFunc(time.Minute, func() { panic("the reading of a table hangs") })
		defer stop.Stop()
		before := allocated()
		forward, backward, err := read(data, o)
		if took := allocated() - before; took > 64<<20+8192*uint64(len(data)) {
			t.Fatalf("%d bytes allocated for a table of %d", took, len(data))
		}
		if err != nil {
			return
		}
		if len(forward) != len(backward) {
			t.Fatalf("%d entries forward, %d backward", len(forward), len(backward))
		}
		for i, p := range forward {
			if p != backward[len(backward)-1-i] {
				t.Fatal("the directions differ")
			}
			if i > 0 && forward[i-1].key >= p.key {
				return // no writer makes that
			}
		}
		again, _, err := read(write(t, o, forward), o)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(forward) {
			t.Fatalf("what was read and written again differs: %v", err)
		}
	})
}
