package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// backwards is a custom comparer: it orders keys in reverse, after the empty one.
type backwards struct{}

func (backwards) Name() string { return "test.Backwards" }

func (backwards) Compare(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) - len(b)
	}
	return -bytes.Compare(a, b)
}

func (backwards) Separator(dst, a, b []byte) []byte { return nil }
func (backwards) Successor(dst, b []byte) []byte    { return nil }

// taskOptions returns the options of a kind of database.
func taskOptions(kind string) (*opt.Options, error) {
	switch kind {
	case "file":
		return nil, nil
	case "filter":
		return &opt.Options{Filter: filter.NewBloomFilter(10), WriteBuffer: 64 << 10, CompactionTableSize: 32 << 10}, nil
	case "comparer":
		return &opt.Options{Comparer: backwards{}, WriteBuffer: 64 << 10}, nil
	case "strict":
		return &opt.Options{Strict: opt.StrictAll}, nil
	}
	return nil, fmt.Errorf("unknown kind of database %q", kind)
}

// runTask works on the database in dir: fill writes random entries and a large batch, dump prints all
// entries, and salvage those that can be read, with the kind of error at the end. recover is
// salvage after RecoverFile. old appends a record to the
// log that is older than what the MANIFEST has.
func runTask(out *bufio.Writer, task, dir, kind string, seed int64) error {
	o, err := taskOptions(kind)
	if err != nil {
		return err
	}
	if task == "old" {
		return appendOldRecord(dir)
	}
	tolerant := task == "salvage" || task == "recover"
	open := leveldb.OpenFile
	if task == "recover" {
		open = leveldb.RecoverFile
	}
	db, err := open(dir, o)
	if err != nil {
		if tolerant {
			fmt.Fprintln(out, "open:", errorName(err))
			return nil
		}
		return err
	}
	switch task {
	case "fill":
		err = fill(out, db, rand.New(rand.NewSource(seed)))
	case "dump", "salvage", "recover":
		err = dump(out, db)
		if tolerant && err != nil {
			fmt.Fprintln(out, "read:", errorName(err))
			err = nil
		}
	default:
		err = fmt.Errorf("unknown task %q", task)
	}
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return err
}

// fill prints what it writes, as dump does.
func fill(out *bufio.Writer, db *leveldb.DB, rnd *rand.Rand) error {
	var large leveldb.Batch
	for i := range 4000 {
		key := fmt.Appendf(nil, "key %06d", rnd.Intn(20000))
		var err error
		switch {
		case i%7 == 0:
			err = db.Delete(key, nil)
		case i%1000 < 500:
			value := fmt.Appendf(nil, "value %d %d", i, rnd.Int63())
			fmt.Fprintf(out, "%s = %s\n", text(key), text(value))
			err = db.Put(key, value, nil)
		default:
			value := fmt.Appendf(nil, "batch %d %0*d", i, rnd.Intn(4000), i)
			fmt.Fprintf(out, "%s = %s\n", text(key), text(value))
			large.Put(key, value)
		}
		if err == nil && i%1000 == 999 {
			err = db.Write(&large, nil)
			large.Reset()
		}
		if err != nil {
			return err
		}
	}
	for i := range 300 { // for the log
		key, value := fmt.Appendf(nil, "last %03d", i), fmt.Appendf(nil, "%d", rnd.Int63())
		fmt.Fprintf(out, "%s = %s\n", text(key), text(value))
		if err := db.Put(key, value, nil); err != nil {
			return err
		}
	}
	return nil
}

// appendOldRecord writes a record of sequence number 1 with the key "old" to the newest log.
func appendOldRecord(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("no logs in %s: %w", dir, err)
	}
	f, err := os.OpenFile(slices.Max(logs), os.O_WRONLY, 0)
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return err
	}
	w := journal.NewWriter(f)
	record, err := w.Next()
	if err != nil {
		return err
	}
	var b leveldb.Batch
	b.Put([]byte("old"), []byte("value"))
	header := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, 1), 1)
	if _, err := record.Write(append(header, b.Dump()...)); err != nil {
		return err
	}
	return errors.Join(w.Close(), f.Close())
}

func dump(out *bufio.Writer, db *leveldb.DB) error {
	it := db.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		fmt.Fprintf(out, "%s = %s\n", text(it.Key()), text(it.Value()))
		if value, err := db.Get(it.Key(), nil); err != nil || string(value) != string(it.Value()) {
			return fmt.Errorf("get of %q: %q, %w", it.Key(), text(value), err)
		}
	}
	return it.Error()
}
