package damage_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// countWrites returns fsys, and a function that returns how many bytes were written through it.
func countWrites(fsys vfs.FS) (vfs.FS, func() uint64) {
	counting := wrap.NewCounting(fsys)
	return counting, func() uint64 { return counting.Snapshot().Total.WriteBytes }
}

// zeros returns a compressed table with n values of a megabyte of zeros.
func zeros(t *testing.T, n int) ([]byte, *version.FileMeta) {
	t.Helper()
	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{Compression: sstable.Zstd})
	value := make([]byte, 1<<20)
	for i := range n {
		require.NoError(t, w.Add(base.AppendInternalKey(nil, fixture.Key(i), 4, base.KindSet), value))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	return file.Bytes(), version.NewFileMeta(5, w.Size(), w.Smallest(), bytes.Clone(w.Largest()))
}

// A few kilobytes of Zstandard can stand for many megabytes, which a compaction writes.
func TestACompactionThatWritesFarMoreThanItReadSaysSo(t *testing.T) {
	for megabytes, says := range map[int]bool{20: false, 100: true} {
		t.Run(fmt.Sprintf("%d MiB", megabytes), func(t *testing.T) {
			table, meta := zeros(t, megabytes)
			e := fixture.EmptyEdit()
			e.Added = []version.LevelFile{{Level: 1, File: meta}}
			mem, err := hostileImage(t, [][]byte{e.Encode(nil)}, damage.Image{"000005.ldb": table}).FS("db")
			require.NoError(t, err)
			fsys, written := countWrites(mem)
			var log bytes.Buffer
			d := storetest.MustOpen(t, &db.Options{
				FS: fsys, Tables: db.TableOptions{Compression: db.NoCompression}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			require.NoError(t, d.Close()) // nothing writes to the log any more
			require.GreaterOrEqual(t, written(), uint64(megabytes<<20))
			n := strings.Count(log.String(), "a compaction writes far more than its tables have")
			if !says {
				require.Zero(t, n, log.String())
				return
			}
			require.Equal(t, 1, n, log.String())
			require.Contains(t, log.String(), "tables=000005.ldb")
			require.Contains(t, log.String(), fmt.Sprintf("input=%d", len(table)))
		})
	}
}

// The bug: opening five tables in level 0, each a key of a megabyte and three million entries that share it, wrote
// gigabytes, towards three terabytes, by automatic compaction. Now it is corruption after a few of them.
func TestTablesOfLongSharedKeysFillNoDisk(t *testing.T) {
	stop := damage.Watch("the compaction of tables of long shared keys")
	defer stop()
	const entries = 20_000
	e := fixture.EmptyEdit()
	im := damage.Image{}
	for i := range 5 {
		table, smallest, largest := damage.SharedKeys(64<<10, entries, uint64(4-i)+1)
		require.Less(t, len(table), 4<<20)
		num := uint64(5 + i)
		e.Added = append(e.Added, version.LevelFile{Level: 0, File: version.NewFileMeta(num, uint64(len(table)), smallest, largest)})
		im[fmt.Sprintf("%06d.ldb", num)] = table
	}
	im = hostileImage(t, [][]byte{e.Encode(nil)}, im)
	mem, err := im.FS("db")
	require.NoError(t, err)
	fsys, written := countWrites(mem)
	d := storetest.MustOpen(t, &db.Options{FS: fsys})
	require.ErrorIs(t, d.Compact(t.Context(), nil, nil), db.ErrCorruption)
	require.NoError(t, d.Close())
	require.LessOrEqual(t, written(), damage.WriteBound(im.Size()))

	mem, err = im.FS("db")
	require.NoError(t, err)
	fsys, written = countWrites(mem)
	require.NoError(t, db.Repair("db", &db.Options{FS: fsys}))
	require.LessOrEqual(t, written(), damage.WriteBound(im.Size()))
}
