package wrap_test

import (
	"io"
	"io/fs"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

func TestCountingByKind(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(wrap.Snapshot) wrap.Counts
	}{
		{"000007.log", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileLog) }},
		{"000007.ldb", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileTable) }},
		{"000007.sst", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileOldTable) }},
		{"000007.sst", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileTable, base.FileOldTable) }},
		{"MANIFEST-000007", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileManifest) }},
		{"CURRENT", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileCurrent) }},
		{"LOCK", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileLock) }},
		{"000007.dbtmp", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileTemp) }},
		{"LOG", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileInfoLog) }},
		{"CLOSED", func(s wrap.Snapshot) wrap.Counts { return s.Of(base.FileClosed) }},
		{"notes.txt", func(s wrap.Snapshot) wrap.Counts { return s.Other }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cnt := wrap.NewCounting(vfs.NewMem())
			require.NoError(t, cnt.MkdirAll("db"))
			path := "db/" + c.name

			f := result.Of(cnt.Create(path))(t)
			require.NoError(t, result.Err(f.Write(make([]byte, 100))))
			require.NoError(t, result.Err(f.Write(make([]byte, 20))))
			require.NoError(t, f.Sync())
			require.NoError(t, cnt.SyncDir("db"))
			want := wrap.Counts{Creates: 1, Writes: 2, WriteBytes: 120, Syncs: 1, OpenFiles: 1}
			first := cnt.Snapshot()
			require.Equal(t, want, c.of(first))
			require.Equal(t, want, first.Total)
			require.EqualValues(t, 1, first.DirSyncs)
			require.NoError(t, f.Close())

			f = result.Of(cnt.Open(path))(t)
			require.NoError(t, result.Err(f.ReadAt(make([]byte, 50), 10)))
			n, err := f.ReadAt(make([]byte, 50), 100)
			require.Equal(t, io.EOF, err)
			require.Equal(t, 20, n)
			require.NoError(t, f.Close())
			require.ErrorIs(t, f.Close(), fs.ErrClosed)
			require.NoError(t, cnt.Rename(path, path))
			require.NoError(t, cnt.Remove(path))
			want = wrap.Counts{Opens: 1, Reads: 2, ReadBytes: 70, Renames: 1, Removes: 1, OpenFiles: -1}
			since := cnt.Snapshot().Sub(first)
			require.Equal(t, want, c.of(since))
			require.Equal(t, want, since.Total)
			require.Zero(t, since.DirSyncs)
			require.Zero(t, cnt.Snapshot().Total.OpenFiles)
		})
	}
}

func TestCountingKnowsEveryKind(t *testing.T) {
	kinds := 0
	for k := range base.FileKind(base.NumFileKinds) {
		cnt := wrap.NewCounting(vfs.NewMem())
		f := result.Of(cnt.Create(base.FileName(k, 1)))(t)
		require.NoError(t, f.Close())
		require.EqualValues(t, 1, cnt.Snapshot().Of(k).Creates)
		require.Zero(t, cnt.Snapshot().Other)
		kinds++
	}
	require.Equal(t, 10, kinds, "a new kind of file needs a bucket and a line in TestCountingByKind")
}

func TestCountingOfFailures(t *testing.T) {
	faulty := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && op.Name == "000001.log" {
			return nil
		}
		return &wrap.Fault{Short: 3}
	})
	cnt := wrap.NewCounting(faulty)
	f := result.Of(cnt.Create("000001.log"))(t)
	require.Error(t, result.Err(f.Write([]byte("12345"))))
	require.Error(t, f.Sync())
	require.Error(t, result.Err(f.ReadAt(make([]byte, 5), 0)))
	require.Error(t, f.Close())
	require.Error(t, result.Err(cnt.Create("000002.log")))
	require.Error(t, result.Err(cnt.Open("000001.log")))
	require.Error(t, cnt.Remove("000001.log"))
	require.Error(t, cnt.Rename("000001.log", "000003.log"))
	require.Equal(t, wrap.Counts{Creates: 1, Writes: 1, WriteBytes: 3, Syncs: 1, Reads: 1, ReadBytes: 3},
		cnt.Snapshot().Of(base.FileLog), "only operations that reached the disk count")
}

func TestRenameCountsForTheNewName(t *testing.T) {
	cnt := wrap.NewCounting(vfs.NewMem())
	f := result.Of(cnt.Create("000005.dbtmp"))(t)
	require.NoError(t, f.Close())
	require.NoError(t, cnt.Rename("000005.dbtmp", "CURRENT"))
	require.EqualValues(t, 1, cnt.Snapshot().Of(base.FileCurrent).Renames)
	require.Zero(t, cnt.Snapshot().Of(base.FileTemp).Renames)
}

func TestObserverSeesEachOperation(t *testing.T) {
	cnt := wrap.NewCounting(vfs.NewMem())
	var seen []wrap.Op
	cnt.Observe(func(op wrap.Op) { seen = append(seen, op) })

	require.NoError(t, cnt.MkdirAll("d"))
	f := result.Of(cnt.Create("d/a"))(t)
	for _, s := range []string{"abc", "de"} {
		require.NoError(t, result.Err(f.Write([]byte(s))))
	}
	require.NoError(t, f.Sync())
	_, err := f.ReadAt(make([]byte, 9), 1)
	require.Equal(t, io.EOF, err)
	require.NoError(t, result.Err(f.Size()))
	require.NoError(t, f.Close())
	require.NoError(t, cnt.Link("d/a", "d/b"))
	require.NoError(t, cnt.Rename("d/a", "d/c"))
	require.NoError(t, cnt.SyncDir("d"))
	require.NoError(t, result.Err(cnt.List("d")))
	require.NoError(t, result.Err(cnt.Stat("d/c")))
	l := result.Of(cnt.Lock("d/LOCK", false))(t)
	require.NoError(t, l.Close())
	_, gone := cnt.Open("d/a")
	require.Error(t, gone)
	require.NoError(t, cnt.Remove("d/b"))
	f = result.Of(cnt.CreateLog("d/log"))(t)
	require.NoError(t, result.Err(f.Write([]byte("abc"))))
	require.NoError(t, f.(vfs.LogFile).Cut())

	require.Equal(t, []wrap.Op{
		{Kind: wrap.OpMkdirAll, Name: "d"},
		{Kind: wrap.OpCreate, Name: "d/a"},
		{Kind: wrap.OpWrite, Name: "d/a", Offset: 0, Length: 3, N: 3},
		{Kind: wrap.OpWrite, Name: "d/a", Offset: 3, Length: 2, N: 2},
		{Kind: wrap.OpSync, Name: "d/a"},
		{Kind: wrap.OpRead, Name: "d/a", Offset: 1, Length: 9, N: 4, Err: io.EOF},
		{Kind: wrap.OpSize, Name: "d/a"},
		{Kind: wrap.OpClose, Name: "d/a"},
		{Kind: wrap.OpLink, Name: "d/a", NewName: "d/b"},
		{Kind: wrap.OpRename, Name: "d/a", NewName: "d/c"},
		{Kind: wrap.OpSyncDir, Name: "d"},
		{Kind: wrap.OpList, Name: "d"},
		{Kind: wrap.OpStat, Name: "d/c"},
		{Kind: wrap.OpLock, Name: "d/LOCK"},
		{Kind: wrap.OpOpen, Name: "d/a", Err: gone},
		{Kind: wrap.OpRemove, Name: "d/b"},
		{Kind: wrap.OpCreate, Name: "d/log"},
		{Kind: wrap.OpWrite, Name: "d/log", Offset: 0, Length: 3, N: 3},
		{Kind: wrap.OpCut, Name: "d/log"},
	}, seen)

	cnt.Observe(nil)
	require.NoError(t, cnt.SyncDir("d"))
	require.Len(t, seen, 19, "no more calls after Observe(nil)")
}

func TestCountingFromManyGoroutines(t *testing.T) {
	cnt := wrap.NewCounting(vfs.NewMem())
	f := result.Of(cnt.Create("000001.ldb"))(t)
	require.NoError(t, result.Err(f.Write(make([]byte, 10))))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				_, _ = f.ReadAt(make([]byte, 10), 0)
				cnt.Snapshot()
			}
		})
	}
	wg.Wait()
	require.NoError(t, f.Close())
	tables := cnt.Snapshot().Of(base.FileTable)
	require.EqualValues(t, 2000, tables.Reads)
	require.EqualValues(t, 20000, tables.ReadBytes)
}

func freshOS(t *testing.T) (vfs.FS, string) { return vfs.OS, t.TempDir() }

func freshMem(t *testing.T) (vfs.FS, string) {
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("/some/db"))
	return m, "/some/db"
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name  string
		fresh func(t *testing.T) (vfs.FS, string)
	}{
		{"Counting over OS", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshOS(t)
			return wrap.NewCounting(fsys), dir
		}},
		{"observed Counting over Mem", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshMem(t)
			c := wrap.NewCounting(fsys)
			c.Observe(func(wrap.Op) {})
			return c, dir
		}},
		{"Faulty over OS", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshOS(t)
			return wrap.NewFaulty(fsys, nil), dir
		}},
		{"Faulty over Counting over Mem", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshMem(t)
			return wrap.NewFaulty(wrap.NewCounting(fsys), func(wrap.Op) *wrap.Fault { return nil }), dir
		}},
	} {
		t.Run(c.name, func(t *testing.T) { vfstest.Run(t, c.fresh) })
	}
}
