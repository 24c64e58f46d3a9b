package follow

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// database is a directory that a writer has open, and its follower.
type database struct {
	t    *testing.T
	fs   *vfs.Mem
	set  *manifest.Set
	logs map[uint64]*wal.Writer
	*Follower
	view    View
	views   int // published
	dropped []uint64
}

const dir = "dir"

// run calls f with a new database, whose MANIFEST needs log 10, and a follower that has not read it yet.
// Time passes by itself.
func run(t *testing.T, f func(d *database)) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{t: t, fs: vfs.NewMem(), logs: map[uint64]*wal.Writer{}}
		require.NoError(t, d.fs.MkdirAll(dir))
		d.begin(&manifest.Edit{LogNum: manifest.Num(10), LastSeq: manifest.Num(0)})
		d.newLog(10)
		d.Follower = d.newFollower(d.fs)
		f(d)
		require.NoError(t, d.Close())
		require.NoError(t, d.set.Close())
	})
}

func (d *database) newFollower(fsys vfs.FS) *Follower {
	return New(Options{
		FS: fsys, Dir: dir, MemtableSize: 1 << 20, FindLogs: func() (vfs.FS, error) { return fsys, nil },
		Check:    func(manifest.Recorded) error { return nil },
		Manifest: manifest.SetOptions{Cmp: base.Bytewise, ReadLimit: 1 << 20},
		Drop: func(files []version.LevelFile) {
			for _, f := range files {
				d.dropped = append(d.dropped, f.File.Num)
			}
		},
	})
}

// begin starts a new MANIFEST, as an opening for writing does.
func (d *database) begin(e *manifest.Edit) {
	o := manifest.SetOptions{FS: d.fs, Dir: dir, Cmp: base.Bytewise, MaxManifestSize: 1 << 20}
	if d.set == nil {
		d.set = manifest.New(o)
	} else {
		require.NoError(d.t, d.set.Close())
		var err error
		d.set, _, err = manifest.Load(o)
		require.NoError(d.t, err)
	}
	d.set.MarkUsed(100) // logs and tables have the numbers below
	require.NoError(d.t, d.set.Begin(e, nil))
}

func (d *database) apply(e *manifest.Edit) { require.NoError(d.t, d.set.Apply(e, nil)) }

// added returns an addition of table num to level 1, and makes its file.
func (d *database) added(num, seq uint64) version.LevelFile {
	d.create(base.FileName(base.FileTable, num))
	key := base.AppendInternalKey(nil, fmt.Appendf(nil, "%03d", num), seq, base.KindSet)
	return version.LevelFile{Level: 1, File: version.NewFileMeta(num, 5, key, key)}
}

func deleted(num uint64) version.DeletedFile { return version.DeletedFile{Level: 1, Num: num} }

func (d *database) create(name string) {
	fixture.WriteFile(d.t, d.fs, filepath.Join(dir, name), []byte("table"))
}

func (d *database) remove(kind base.FileKind, num uint64) {
	require.NoError(d.t, d.fs.Remove(filepath.Join(dir, base.FileName(kind, num))))
}

func (d *database) newLog(num uint64) {
	f := result.Of(d.fs.Create(filepath.Join(dir, base.FileName(base.FileLog, num))))(d.t)
	d.logs[num] = wal.NewWriter(f)
}

// write writes a record with an entry for each sequence number.
func (d *database) write(log uint64, seqs ...uint64) {
	require.NoError(d.t, d.logs[log].WriteRecord(recordOf(seqs...)))
	require.NoError(d.t, d.logs[log].Sync())
}

func recordOf(seqs ...uint64) []byte {
	record := batch.AppendRecord(nil, seqs[0], base.KindSet, keyOf(seqs[0]), []byte("value"))
	for _, seq := range seqs[1:] {
		more := batch.AppendRecord(nil, seq, base.KindSet, keyOf(seq), []byte("value"))
		record = append(record, more[batch.HeaderLen:]...)
		record[8]++
	}
	return record
}

func keyOf(seq uint64) []byte { return fmt.Appendf(nil, "%06d", seq) }

func (d *database) refresh() error {
	return d.Refresh(context.Background(), func(v View) { d.view = v; d.views++ })
}

func (d *database) mustRefresh() { require.NoError(d.t, d.refresh()) }

// requireView requires the tables and the visible sequence numbers in memtables of the view.
func (d *database) requireView(seq uint64, tables, seqs []uint64) {
	d.t.Helper()
	require.Equal(d.t, seq, d.view.Seq)
	gotTables, gotSeqs := contentOf(d.view)
	require.Equal(d.t, tables, gotTables)
	require.Equal(d.t, seqs, gotSeqs)
	for _, num := range tables {
		f := result.Of(d.FS().Open(filepath.Join(dir, base.FileName(base.FileTable, num))))(d.t)
		require.NoError(d.t, f.Close())
	}
}

func contentOf(v View) (tables, seqs []uint64) {
	v.Version.Files(func(_ int, f *version.FileMeta) { tables = append(tables, f.Num) })
	for _, m := range v.Memtables {
		for ikey := range m.All() {
			if seq := base.Trailer(ikey) >> 8; seq <= v.Seq {
				seqs = append(seqs, seq)
			}
		}
	}
	slices.Sort(seqs)
	return tables, seqs
}

func (d *database) lag() report.Lag {
	lag := result.Of(d.Lag())(d.t)
	return lag
}
