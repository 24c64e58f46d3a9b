package replay

import (
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// database is a directory with a MANIFEST and logs, and the options of a Replayer.
type database struct {
	dir     tables.Directory
	opts    Options // for the next open
	set     *manifest.Set
	entries []string // of the tables that were written, as key@sequence
	fail    error    // if set, writeTable returns it
}

// newDatabase makes a directory whose MANIFEST needs the logs from number 10 on.
func newDatabase(t *testing.T) *database {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("dir"))
	r := &database{dir: tables.Directory{FS: mem, Path: "dir", Logger: slog.New(slog.DiscardHandler)}}
	r.opts = Options{Dir: r.dir, Comparer: base.Bytewise, WriteBufferSize: 64 << 10, WriteTable: r.writeTable,
		NewMemtable: func(_, usual uint64) *memtable.Memtable { return memtable.New(r.opts.Comparer, int(usual)) }}
	r.set = manifest.New(r.setOptions())
	edit := &manifest.Edit{LogNum: manifest.Num(10), LastSeq: manifest.Num(0)}
	require.NoError(t, r.set.Begin(edit, func(*version.Version) {}))
	require.NoError(t, r.set.Close())
	return r
}

func (r *database) setOptions() manifest.SetOptions {
	return manifest.SetOptions{
		FS: r.dir.FS, Dir: r.dir.Path, Cmp: base.Bytewise, MaxManifestSize: 1 << 20, ReadLimit: 1 << 20, MaxTables: 100,
		Obsolete: func([]version.LevelFile) {}, NewHandle: func() any { return nil },
	}
}

func (r *database) writeTable(mem *memtable.Memtable, edit *manifest.Edit) ([]*version.FileMeta, error) {
	if r.fail != nil {
		return nil, r.fail
	}
	w := tables.NewWriter(tables.WriterOptions{
		Dir: r.dir, Kind: base.FileTable, Spares: tables.NewSpareWriters(1, 1<<20), NewFileNum: r.set.NewFileNum,
		Table: sstable.WriterOptions{Comparer: base.Bytewise, Filter: filter.NewBloomPolicy(10)},
	})
	for ikey, value := range mem.All() {
		if err := w.Add(ikey, value); err != nil {
			w.Abandon()
			return nil, err
		}
	}
	if _, err := w.Finish(); err != nil {
		return nil, err
	}
	r.entries = append(r.entries, entriesOf(mem)...)
	return w.AddTo(edit, 0), nil
}

// entriesOf lists the entries of a memtable as key@sequence, in its order.
func entriesOf(mem *memtable.Memtable) (entries []string) {
	for ikey := range mem.All() {
		entries = append(entries, fmt.Sprintf("%s@%d", base.UserKey(ikey), base.Trailer(ikey)>>8))
	}
	return entries
}

// preamble begins a log with SieveDB's preamble. last is the last operation before the log.
func preamble(last uint64) func(*testing.T, *wal.Writer) {
	return func(t *testing.T, w *wal.Writer) { require.NoError(t, batch.BufferPreamble(w, last)) }
}

// puts writes a record for each sequence number: key a for 1, key b for 2, and so on.
func puts(seqs ...uint64) func(*testing.T, *wal.Writer) {
	return func(t *testing.T, w *wal.Writer) {
		for _, seq := range seqs {
			require.NoError(t, w.WriteRecord(batch.AppendRecord(nil, seq, base.KindSet, keyOf(seq), []byte("value"))))
		}
	}
}

func keyOf(seq uint64) []byte { return []byte{byte('a' + (seq-1)%26)} }

// log writes the log with number num.
func (r *database) log(t *testing.T, num uint64, parts ...func(*testing.T, *wal.Writer)) {
	t.Helper()
	f := result.Of(r.dir.FS.Create(r.dir.File(base.FileLog, num)))(t)
	w := wal.NewWriter(f)
	for _, part := range parts {
		part(t, w)
	}
	require.NoError(t, w.Sync())
	require.NoError(t, w.Close())
}

// read returns the bytes of a file below the directory.
func (r *database) read(t *testing.T, name string) []byte {
	t.Helper()
	return fixture.ReadFile(t, r.dir.FS, filepath.Join(r.dir.Path, name))
}

// replace overwrites a file with b.
func (r *database) replace(t *testing.T, name string, b []byte) {
	t.Helper()
	fixture.WriteFile(t, r.dir.FS, filepath.Join(r.dir.Path, name), b)
}

// open returns a Replayer of the directory.
func (r *database) open(t *testing.T) *Replayer {
	t.Helper()
	files := result.Of(manifest.ListDir(r.dir.FS, r.dir.Path))(t)
	set, state, err := manifest.Load(r.setOptions())
	require.NoError(t, err)
	for _, f := range files.All {
		set.MarkUsed(f.Num)
	}
	r.set = set
	return New(r.opts, files, state, set.Current())
}

// names lists the files of the directory and of lost/.
func (r *database) names(t *testing.T) []string {
	t.Helper()
	names := result.Of(r.dir.FS.List(r.dir.Path))(t)
	lost, err := r.dir.FS.List(filepath.Join(r.dir.Path, manifest.LostDir))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, name := range lost {
		names = append(names, manifest.LostDir+"/"+name)
	}
	slices.Sort(names)
	return names
}
