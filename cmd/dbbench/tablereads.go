package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// tableReads counts a store's reads of table files at the file system. It knows the layout of each table, so it
// distinguishes index blocks from data blocks by their offset and does not depend on the store's own counters.
//
// The tables must not change while it counts.
type tableReads struct {
	layouts map[string]tableLayout // by path

	opening, index, data atomic.Uint64 // calls of ReadAt
}

// readCounts are the reads of table files in one pass.
type readCounts struct {
	Opening uint64 // of the end of the file, and of filters alone
	Index   uint64
	Data    uint64
}

func (c readCounts) all() uint64 { return c.Opening + c.Index + c.Data }

// tableLayout has the offsets by which reads of one table are distinguished.
type tableLayout struct {
	size     uint64 // of the file
	lastData uint64 // offset of the last data block
	index    uint64 // offset of the index block
}

// kind returns the counter for a read of n bytes at offset. Opening a table reads its end, and
// that read may start anywhere.
func (l tableLayout) kind(t *tableReads, offset, n uint64) *atomic.Uint64 {
	switch {
	case offset+n >= l.size:
		return &t.opening
	case offset <= l.lastData:
		return &t.data
	case offset == l.index:
		return &t.index
	}
	return &t.opening
}

// readLayouts reads the layout of each table in dir.
func readLayouts(fs vfs.FS, dir string) (*tableReads, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	t := &tableReads{layouts: make(map[string]tableLayout)}
	for _, name := range names {
		if !isTable(name) {
			continue
		}
		path := filepath.Join(dir, name)
		if t.layouts[path], err = readLayout(fs, path); err != nil {
			return nil, fmt.Errorf("reading the layout of table %s: %w", path, err)
		}
	}
	return t, nil
}

func readLayout(fs vfs.FS, path string) (l tableLayout, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return l, err
	}
	r, err := sstable.Open(f, sstable.ReaderOptions{Name: path}) // closes f, also on an error
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if l.size, l.index, err = sizeAndIndex(f); err != nil {
		return l, err
	}
	it, err := r.NewIter(sstable.IterOptions{})
	if err != nil {
		return l, err
	}
	if it.Last() {
		l.lastData, err = r.ApproximateOffset(it.Key())
	}
	return l, errors.Join(err, it.Err(), it.Close())
}

// sizeAndIndex returns the length of the file and, from the footer, the offset of the index
// block (LevelDB's table_format.md). The table was opened before, so the footer is valid.
func sizeAndIndex(f vfs.File) (fileSize, index uint64, err error) {
	const footerLen = 48
	size, err := f.Size()
	if err != nil {
		return 0, 0, err
	}
	var footer [footerLen]byte
	if _, err := f.ReadAt(footer[:], size-footerLen); err != nil {
		return 0, 0, err
	}
	handles := footer[:]
	// The metaindex handle (offset and size) comes first.
	for range 2 {
		_, n := util.Uvarint64(handles)
		handles = handles[n:]
	}
	offset, n := util.Uvarint64(handles)
	if n == 0 {
		return 0, 0, errors.New("the footer has no index handle")
	}
	return uint64(size), offset, nil
}

func isTable(name string) bool {
	kind, _, ok := base.ParseFileName(name)
	return ok && (kind == base.FileTable || kind == base.FileOldTable)
}

// observe counts an operation of the file system if it reads a table. It may be called concurrently.
func (t *tableReads) observe(op wrap.Op) {
	if op.Kind != wrap.OpRead {
		return
	}
	if l, ok := t.layouts[op.Name]; ok {
		l.kind(t, uint64(op.Offset), uint64(op.Length)).Add(1)
	}
}

// counts returns the reads since the last reset.
func (t *tableReads) counts() readCounts {
	return readCounts{Opening: t.opening.Load(), Index: t.index.Load(), Data: t.data.Load()}
}

// reset sets all counts to 0.
func (t *tableReads) reset() {
	for _, c := range []*atomic.Uint64{&t.opening, &t.index, &t.data} {
		c.Store(0)
	}
}
