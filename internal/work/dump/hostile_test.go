package dump_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// forged is a table under construction, with valid checksums whatever its blocks contain.
type forged struct{ file []byte }

// block appends a block with its trailer and returns its handle as bytes.
func (f *forged) block(data []byte) []byte {
	at := len(f.file)
	f.file = append(append(f.file, data...), 0)
	f.file = util.AppendFixed32(f.file, util.MaskCRC(util.CRC32C(f.file[at:])))
	return handle(at, len(data))
}

func handle(at, size int) []byte {
	return util.AppendUvarint64(util.AppendUvarint64(nil, uint64(at)), uint64(size))
}

func (f *forged) finish(metaindex, index []byte) []byte {
	foot := append(append([]byte{}, metaindex...), index...)
	foot = append(foot, make([]byte, 40-len(foot))...)
	return append(f.file, util.AppendFixed64(foot, 0xdb4775248b80fb57)...)
}

// entries returns a block of entries with one restart point: pairs of keys and values. Keys share
// shared bytes with the key before.
func entries(shared int, pairs ...[]byte) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		s := 0
		if i > 0 {
			s = shared
		}
		b = util.AppendUvarint32(b, uint32(s))
		b = util.AppendUvarint32(b, uint32(len(pairs[i])-s))
		b = util.AppendUvarint32(b, uint32(len(pairs[i+1])))
		b = append(append(b, pairs[i][s:]...), pairs[i+1]...)
	}
	return append(util.AppendFixed32(b, 0), 1, 0, 0, 0)
}

func ikey(user string) []byte { return base.AppendInternalKey(nil, []byte(user), 1, base.KindSet) }

func TestForgedTables(t *testing.T) {
	value := []byte("v")
	for _, c := range []struct {
		name  string
		table func(f *forged) []byte
		want  string
	}{
		{"an index that lists a block twice", func(f *forged) []byte {
			data := f.block(entries(0, ikey("a"), value))
			meta := f.block(entries(0))
			return f.finish(meta, f.block(entries(0, ikey("a"), data, ikey("b"), data)))
		}, "overlaps the one before it"},
		{"an index entry without a handle", func(f *forged) []byte {
			f.block(entries(0, ikey("a"), value))
			meta := f.block(entries(0))
			return f.finish(meta, f.block(entries(0, ikey("a"), []byte{0xff})))
		}, "a block handle in 1 bytes is malformed"},
		{"a separator that is no internal key", func(f *forged) []byte {
			data := f.block(entries(0, ikey("a"), value))
			meta := f.block(entries(0))
			return f.finish(meta, f.block(entries(0, []byte("a"), data)))
		}, "the separator is not an internal key"},
		{"a metaindex that lists a block many times", func(f *forged) []byte {
			big := f.block(make([]byte, 500))
			names := [][]byte{}
			for i := range 5 {
				names = append(names, fmt.Appendf(nil, "filter.%d", i), big)
			}
			meta := f.block(entries(0, names...))
			return f.finish(meta, f.block(entries(0)))
		}, "more bytes than the file"},
		{"a metaindex entry without a handle", func(f *forged) []byte {
			return f.finish(f.block(entries(0, []byte("filter.x"), []byte{0xff})), f.block(entries(0)))
		}, "is malformed"},
		{"a property that is no number", func(f *forged) []byte {
			props := f.block(entries(0, []byte("entries"), []byte("many"), []byte("x"), []byte{0xff}))
			return f.finish(f.block(entries(0, []byte("filter.sievedb.properties"), props)), f.block(entries(0)))
		}, `name="entries" value="many"`},
		{"an unknown compression", func(f *forged) []byte {
			at := len(f.file)
			f.file = append(f.file, 1, 2, 3, 9)
			f.file = util.AppendFixed32(f.file, util.MaskCRC(util.CRC32C(f.file[at:])))
			return f.finish(f.block(entries(0)), f.block(entries(0, ikey("a"), handle(at, 3))))
		}, "data block FAULT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := lines(t, write(t, "000005.ldb", c.table(&forged{})), "db/000005.ldb", dump.Options{Entries: true})
			require.Contains(t, strings.Join(got, "\n"), c.want)
		})
	}
}

// A long key that many entries share would fill the output with terabytes.
func TestKeysThatExpandWithoutEnd(t *testing.T) {
	var f forged
	long := append(make([]byte, 100<<10), ikey("")...)
	pairs := [][]byte{}
	for range 5000 {
		pairs = append(pairs, long, nil)
	}
	data := f.block(entries(len(long), pairs...))
	meta := f.block(entries(0))
	table := f.finish(meta, f.block(entries(0, ikey("a"), data)))
	items, faults := 0, ""
	sum, err := dump.File(write(t, "000005.ldb", table), "db/000005.ldb", dump.Options{Entries: true}, func(i *dump.Item) error {
		items++
		faults += i.Fault
		return nil
	})
	require.NoError(t, err)
	require.Less(t, items, 3000)
	require.Equal(t, uint64(1), sum.Faults)
	require.Contains(t, faults, "expand too far")
}

// file is the bytes of a log, for a wal.Writer.
type file struct{ bytes []byte }

func (f *file) Write(p []byte) (int, error) { f.bytes = append(f.bytes, p...); return len(p), nil }
func (f *file) Sync() error                 { return nil }
func (f *file) Close() error                { return nil }

func TestRecordsThatAreNoBatchesOrEdits(t *testing.T) {
	var f file
	w := wal.NewWriter(&f)
	require.NoError(t, w.WriteRecord([]byte("no batch")))
	require.NoError(t, w.WriteRecord(append(util.AppendFixed64(nil, 5), 2, 0, 0, 0, 1, 1, 'a', 1, 'b'))) // two entries, says the head
	got, sum := lines(t, write(t, "000005.log", f.bytes), "db/000005.log", dump.Options{Entries: true})
	require.Equal(t, uint64(2), sum.Faults)
	require.Contains(t, strings.Join(got, "\n"), `entry operation=put sequence=5 key="a" value="b"`, "the readable part")
	got, sum = lines(t, write(t, "MANIFEST-000005", f.bytes), "db/MANIFEST-000005", dump.Options{})
	require.Equal(t, uint64(2), sum.Faults)
	require.Contains(t, strings.Join(got, "\n"), `record="no batch"`)
}

func TestUnwrittenZerosAndLostRecords(t *testing.T) {
	var f file
	w := wal.NewWriter(&f)
	for _, key := range []byte("abc") {
		require.NoError(t, w.WriteRecord(append(util.AppendFixed64(nil, uint64(key)), 1, 0, 0, 0, 1, 1, key, 1, 'v')))
	}
	got, sum := lines(t, write(t, "000005.log", append(f.bytes, make([]byte, 100)...)), "db/000005.log", dump.Options{})
	require.Zero(t, sum.Faults)
	require.Contains(t, got[len(got)-1], "+100 unwritten zeros")
	// A process was killed while it appended a record through memory: the first header is zeros.
	unfinished := append(bytes.Clone(f.bytes), make([]byte, 5000)...)
	copy(unfinished[len(f.bytes)+7:], "the bytes of a record")
	got, sum = lines(t, write(t, "000005.log", unfinished), "db/000005.log", dump.Options{})
	require.Zero(t, sum.Faults)
	require.True(t, sum.Torn)
	require.Contains(t, got[len(got)-2], "+28 lost bytes end of the log=torn")
	require.Contains(t, got[len(got)-1], "+4972 unwritten zeros")
	f.bytes[30] ^= 1
	got, sum = lines(t, write(t, "000005.log", f.bytes), "db/000005.log", dump.Options{Entries: true})
	require.Equal(t, uint64(1), sum.Faults)
	text := strings.Join(got, "\n")
	require.Contains(t, text, `key="a"`)
	require.Contains(t, text, "lost bytes end of the log=damaged FAULT")
	require.Contains(t, text, `key="c"`)
}

// An error of the receiver or of the disk ends a dump and is returned, wherever it happens.
func TestErrorsEndADump(t *testing.T) {
	stop := errors.New("stop")
	golden(t, func(path string) {
		if strings.Contains(path, "levels") || dump.KindOf(path) == dump.Table && !strings.Contains(path, "sievedb-both") {
			return // the same parts, many times
		}
		_, sum := lines(t, vfs.OS, path, dump.Options{Entries: true})
		for n := range min(sum.Items, 60) {
			items := uint64(0)
			_, err := dump.File(vfs.OS, path, dump.Options{Entries: true}, func(*dump.Item) error {
				if items++; items > n {
					return stop
				}
				return nil
			})
			require.ErrorIs(t, err, stop, "%s, item %d", path, n)
		}
		failAtEveryOperation(t, func(fsys vfs.FS) error {
			_, err := dump.File(fsys, path, dump.Options{Entries: true}, func(*dump.Item) error { return nil })
			return err
		})
	})
}

// failAtEveryOperation calls f with file systems of which one operation fails, each in turn, until f succeeds.
func failAtEveryOperation(t *testing.T, f func(fsys vfs.FS) error) {
	t.Helper()
	for n := uint64(1); ; n++ {
		failed := false
		fail := wrap.FailNth(n, wrap.ErrInjected)
		err := f(wrap.NewFaulty(vfs.OS, func(op wrap.Op) *wrap.Fault {
			fault := fail(op)
			failed = failed || fault != nil && op.Kind != wrap.OpClose
			return fault
		}))
		if !failed {
			require.NoError(t, err)
			if n > 100 {
				return
			}
			continue
		}
		require.ErrorIs(t, err, wrap.ErrInjected, "operation %d", n)
	}
}
