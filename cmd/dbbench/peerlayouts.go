package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// peerBits is the number of bits per key that users of LevelDB and Pebble configure: the number in
// LevelDB's documentation (doc/index.md) and in CockroachDB's settings of Pebble. Without
// configuration neither has filters.
const peerBits = 10

// filterLayout is the way in which a store filters its tables. All are measured by SieveDB, on the same data
// blocks and levels, so that reads differ by the filters alone.
type filterLayout struct {
	name string // in JSON
	noun string // in text and charts
	what string // describes the filters
	// write returns a copy of a table with the layout's filters. nil: the store's own tables are used.
	write func(r *sstable.Reader, lastLevel bool) ([]byte, error)
	// policy reads the filters.
	policy filter.Policy
}

var noFilters = filterLayout{name: "none", noun: "no filter", what: "none, the default of LevelDB and Pebble", policy: filter.None}

// peerLayouts are the filters of other stores.
var peerLayouts = []filterLayout{
	{
		// Pebble's Get does not consult filters of the last level: IterOptions.UseL6Filters is false
		// unless the caller sets it, and a Get cannot (cockroachdb/pebble, pull request 1685 and issues
		// 2709 and 5136). RocksDB's optimize_filters_for_hits has the same effect. So the last level
		// has no filters here.
		name: "pebble", noun: "Pebble's way", what: "10 bits per key for each table, the last level not consulted",
		policy: filter.NewCacheLineBloomPolicy(peerBits),
		write: func(r *sstable.Reader, lastLevel bool) ([]byte, error) {
			if lastLevel {
				return copyTable(r, filter.None)
			}
			return copyTable(r, filter.NewCacheLineBloomPolicy(peerBits))
		},
	},
	{
		// google/leveldb, table/filter_block.cc and doc/table_format.md: a filter for the data blocks
		// that begin in each 2 KiB of the file, which is consulted after the index.
		name: "leveldb", noun: "LevelDB's layout", what: "10 bits per key for each 2 KiB of a table",
		policy: filter.NewBloomPolicy(peerBits),
		write: func(r *sstable.Reader, _ bool) ([]byte, error) {
			return perBlockTable(r, filter.NewBloomPolicy(peerBits))
		},
	},
}

// storeTables returns the tables of a store, and the last level that has any.
func storeTables(store *db.DB) (tables []db.TableInfo, last int, err error) {
	tables, err = store.Tables()
	for _, t := range tables {
		last = max(last, t.Level)
	}
	return tables, last, err
}

// writeLayout writes to the folder to a database with the tables of the folder from, on the same
// levels, but with the filters of l.
func writeLayout(fs vfs.FS, from, to string, tables []db.TableInfo, last int, l *filterLayout) (err error) {
	if err := fs.MkdirAll(to); err != nil {
		return err
	}
	set := manifest.New(manifest.SetOptions{
		FS: fs, Dir: to, Cmp: base.Bytewise, MaxManifestSize: 1 << 20, Obsolete: func([]manifest.LevelFile) {},
	})
	defer func() { err = errors.Join(err, set.Close()) }()
	edit := &manifest.Edit{}
	var lastSeq uint64
	for _, t := range tables {
		num := set.NewFileNum()
		path := filepath.Join(to, base.FileName(base.FileTable, num))
		file, seq, err := writeLayoutTable(fs, filepath.Join(from, t.Name), path, t.Level == last, l)
		if err != nil {
			return fmt.Errorf("copying table %s with the filters of %s: %w", t.Name, l.noun, err)
		}
		file.Num = num
		lastSeq = max(lastSeq, seq)
		edit.Added = append(edit.Added, manifest.LevelFile{Level: t.Level, File: file})
	}
	log := set.NewFileNum()
	edit.LastSeq, edit.LogNum = manifest.Num(lastSeq), manifest.Num(log)
	if err := writeNewFile(fs, filepath.Join(to, base.FileName(base.FileLog, log)), nil); err != nil {
		return err
	}
	return set.Begin(edit, nil)
}

// writeLayoutTable copies one table and returns its description and its newest sequence number.
func writeLayoutTable(fs vfs.FS, from, to string, lastLevel bool, l *filterLayout) (_ *manifest.FileMeta, seq uint64, err error) {
	f, err := fs.Open(from)
	if err != nil {
		return nil, 0, err
	}
	r, err := sstable.Open(f, sstable.ReaderOptions{Name: from}) // closes f, also on an error
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	table, err := l.write(r, lastLevel)
	if err != nil {
		return nil, 0, err
	}
	it, err := r.NewIter(sstable.IterOptions{})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var smallest, largest []byte
	for ok := it.First(); ok; ok = it.Next() {
		if smallest == nil {
			smallest = bytes.Clone(it.Key())
		}
		largest = append(largest[:0], it.Key()...)
		seq = max(seq, util.Fixed64(largest[len(largest)-8:])>>8)
	}
	if it.Err() != nil {
		return nil, 0, it.Err()
	}
	return manifest.NewFileMeta(0, uint64(len(table)), smallest, largest), seq, writeNewFile(fs, to, table)
}

func writeNewFile(fs vfs.FS, path string, content []byte) error {
	f, err := fs.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// copyTable returns r's table with filters of another policy.
func copyTable(r *sstable.Reader, p filter.Policy) ([]byte, error) {
	var table bytes.Buffer
	w := sstable.NewWriter(&table, sstable.WriterOptions{Filter: p, Compression: sstable.Snappy})
	if err := w.CopyBlocks(r, nil); err != nil {
		return nil, err
	}
	_, err := w.Finish()
	return table.Bytes(), err
}

// perBlockTable returns r's table with LevelDB's arrangement of filters.
func perBlockTable(r *sstable.Reader, p filter.Policy) ([]byte, error) {
	table, err := copyTable(r, filter.None)
	if err != nil {
		return nil, err
	}
	block, err := perBlockFilters(r, p)
	if err != nil {
		return nil, err
	}
	return withFilterBlock(table, "filter."+p.Name(), block)
}

// perBlockFilters returns a filter block: filters, the offset of each, the offset of these offsets, and
// the logarithm of 2 KiB. The copy of r's table has its data blocks at the same offsets.
func perBlockFilters(r *sstable.Reader, p filter.Policy) (block []byte, err error) {
	const baseLg = 11
	it, err := r.NewIter(sstable.IterOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var offsets []uint32
	var keys [][]byte
	finish := func() {
		offsets = append(offsets, uint32(len(block)))
		if len(keys) > 0 {
			block, keys = p.CreateFilter(block, keys), keys[:0]
		}
	}
	for ok := it.First(); ok; ok = it.Next() {
		for uint64(len(offsets)) < it.BlockOffset()>>baseLg {
			finish()
		}
		keys = append(keys, bytes.Clone(base.UserKey(it.Key())))
	}
	finish()
	end := uint32(len(block))
	for _, offset := range append(offsets, end) {
		block = util.AppendFixed32(block, offset)
	}
	return append(block, baseLg), it.Err()
}

// withFilterBlock returns the table with a filter block at its end, a metaindex that names only this
// block, and a new footer. The earlier metaindex and what it named remain in the file unused.
func withFilterBlock(table []byte, name string, block []byte) ([]byte, error) {
	const footerLen, magicLen = 48, 8
	body, footer := table[:len(table)-footerLen], table[len(table)-footerLen:]
	index, err := secondHandle(footer)
	if err != nil {
		return nil, err
	}
	body = bytes.Clone(body)
	appendBlock := func(b []byte) (handle []byte) {
		handle = util.AppendUvarint64(util.AppendUvarint64(nil, uint64(len(body))), uint64(len(b)))
		body = append(append(body, b...), 0) // not compressed
		body = util.AppendFixed32(body, util.MaskCRC(util.CRC32C(body[len(body)-len(b)-1:])))
		return handle
	}
	handle := appendBlock(block)
	// One entry without a shared prefix, and one restart point, at 0 (LevelDB's table/block_builder.cc).
	meta := append([]byte{0, byte(len(name)), byte(len(handle))}, name...)
	meta = append(append(meta, handle...), 0, 0, 0, 0, 1, 0, 0, 0)
	handles := append(appendBlock(meta), index...)
	handles = append(handles, make([]byte, footerLen-magicLen-len(handles))...)
	return append(append(body, handles...), footer[footerLen-magicLen:]...), nil
}

// secondHandle returns the encoded handle of the index from a footer: the numbers 3 and 4 of it.
func secondHandle(footer []byte) ([]byte, error) {
	at := [5]int{}
	for i := range 4 {
		_, n := util.Uvarint64(footer[at[i]:])
		if n <= 0 {
			return nil, errors.New("the footer does not have two handles")
		}
		at[i+1] = at[i] + n
	}
	return footer[at[2]:at[4]], nil
}
