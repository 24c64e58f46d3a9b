package vfs_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// script makes steps on a Mem short: each fails the test when its operation
// fails.
type script struct {
	t *testing.T
	*vfs.Mem
}

func (s script) create(name string) vfs.File {
	f, err := s.Create(name)
	require.NoError(s.t, err)
	return f
}

func (s script) write(f vfs.File, data string) {
	_, err := f.Write([]byte(data))
	require.NoError(s.t, err)
}

// durable makes a file whose bytes and name are durable.
func (s script) durable(name, data string) {
	f := s.create(name)
	s.write(f, data)
	s.ok(f.Sync(), f.Close(), s.SyncDir("."))
}

func (s script) ok(errs ...error) {
	for _, err := range errs {
		require.NoError(s.t, err)
	}
}

func readAll(t *testing.T, f vfs.File) string {
	size, err := f.Size()
	require.NoError(t, err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	require.NoError(t, err)
	return string(b)
}

// tree returns every file with its content and every directory with "/".
func tree(t *testing.T, m *vfs.Mem, dir string) map[string]string {
	all := map[string]string{}
	names, err := m.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		path := dir + "/" + name
		info, err := m.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			all[path[2:]] = "/"
			for k, v := range tree(t, m, path) {
				all[k] = v
			}
			continue
		}
		f, err := m.Open(path)
		require.NoError(t, err)
		all[path[2:]] = readAll(t, f)
		require.NoError(t, f.Close())
	}
	return all
}

func TestCrash(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps func(s script)
		want  map[string]string
	}{
		{"synced bytes under a durable name survive", func(s script) {
			s.durable("a", "kept")
		}, map[string]string{"a": "kept"}},
		{"bytes after the last Sync are lost", func(s script) {
			f := s.create("a")
			s.write(f, "kept")
			s.ok(f.Sync(), s.SyncDir("."))
			s.write(f, " lost")
			s.ok(f.Close())
		}, map[string]string{"a": "kept"}},
		{"Close syncs nothing", func(s script) {
			f := s.create("a")
			s.write(f, "lost")
			s.ok(f.Close(), s.SyncDir("."))
		}, map[string]string{"a": ""}},
		{"SyncDir syncs no bytes, a later Sync does", func(s script) {
			f := s.create("a")
			s.ok(s.SyncDir("."))
			s.write(f, "kept")
			s.ok(f.Sync())
		}, map[string]string{"a": "kept"}},
		{"synced bytes are lost with a name that is not durable", func(s script) {
			f := s.create("a")
			s.write(f, "lost")
			s.ok(f.Sync(), f.Close())
		}, map[string]string{}},
		{"SyncDir of another directory does not help", func(s script) {
			s.ok(s.MkdirAll("d"), s.SyncDir("."))
			f := s.create("d/a")
			s.ok(f.Sync(), s.SyncDir("."))
		}, map[string]string{"d": "/"}},
		{"a rename that was not synced shows the old name", func(s script) {
			s.durable("a", "x")
			s.ok(s.Rename("a", "b"))
		}, map[string]string{"a": "x"}},
		{"a synced rename shows the new name", func(s script) {
			s.durable("a", "x")
			s.ok(s.Rename("a", "b"), s.SyncDir("."))
		}, map[string]string{"b": "x"}},
		{"a replacement that was not synced shows both files", func(s script) {
			s.durable("CURRENT", "old")
			s.durable("tmp", "new")
			s.ok(s.Rename("tmp", "CURRENT"))
		}, map[string]string{"CURRENT": "old", "tmp": "new"}},
		{"a synced replacement shows the new file", func(s script) {
			s.durable("CURRENT", "old")
			s.durable("tmp", "new")
			s.ok(s.Rename("tmp", "CURRENT"), s.SyncDir("."))
		}, map[string]string{"CURRENT": "new"}},
		{"a replacement by unsynced bytes shows an empty file", func(s script) {
			s.durable("CURRENT", "old")
			f := s.create("tmp")
			s.write(f, "new")
			s.ok(f.Close(), s.Rename("tmp", "CURRENT"), s.SyncDir("."))
		}, map[string]string{"CURRENT": ""}},
		{"a rename between directories needs both synced, else it can show twice", func(s script) {
			s.ok(s.MkdirAll("d"))
			s.durable("a", "x")
			s.ok(s.Rename("a", "d/a"), s.SyncDir("d"))
		}, map[string]string{"a": "x", "d": "/", "d/a": "x"}},
		{"a rename between directories with the source alone synced loses the file", func(s script) {
			s.ok(s.MkdirAll("d"))
			s.durable("a", "x")
			s.ok(s.Rename("a", "d/a"), s.SyncDir("."))
		}, map[string]string{"d": "/"}},
		{"a removed file is back", func(s script) {
			s.durable("a", "x")
			s.ok(s.Remove("a"))
		}, map[string]string{"a": "x"}},
		{"a removal that was synced stays", func(s script) {
			s.durable("a", "x")
			s.ok(s.Remove("a"), s.SyncDir("."))
		}, map[string]string{}},
		{"a file made after a removal leaves the old one until SyncDir", func(s script) {
			s.durable("a", "old")
			s.ok(s.Remove("a"))
			f := s.create("a")
			s.write(f, "new")
			s.ok(f.Sync())
		}, map[string]string{"a": "old"}},
		{"a file made after a removal is the one after SyncDir", func(s script) {
			s.durable("a", "old")
			s.ok(s.Remove("a"))
			f := s.create("a")
			s.write(f, "new")
			s.ok(f.Sync(), s.SyncDir("."))
		}, map[string]string{"a": "new"}},
		{"a link that was not synced is gone", func(s script) {
			s.durable("a", "x")
			s.ok(s.Link("a", "b"))
		}, map[string]string{"a": "x"}},
		{"a synced link survives the first name", func(s script) {
			s.durable("a", "x")
			s.ok(s.Link("a", "b"), s.Remove("a"), s.SyncDir("."))
		}, map[string]string{"b": "x"}},
		{"a Sync counts for every name of the file", func(s script) {
			f := s.create("a")
			s.ok(s.Link("a", "b"), s.SyncDir("."))
			s.write(f, "x")
			s.ok(f.Sync())
		}, map[string]string{"a": "x", "b": "x"}},
		{"a Sync after Remove keeps nothing", func(s script) {
			f := s.create("a")
			s.ok(s.SyncDir("."), s.Remove("a"), s.SyncDir("."))
			s.write(f, "x")
			s.ok(f.Sync())
		}, map[string]string{}},
		{"a directory that was not synced is gone with all in it", func(s script) {
			s.ok(s.MkdirAll("d"))
			f := s.create("d/a")
			s.ok(f.Sync(), s.SyncDir("d"))
		}, map[string]string{}},
		{"MkdirAllSynced makes every level durable", func(s script) {
			s.ok(vfs.MkdirAllSynced(s, "x/y/z"))
			f := s.create("x/y/z/a")
			s.ok(f.Sync(), s.SyncDir("x/y/z"))
		}, map[string]string{"x": "/", "x/y": "/", "x/y/z": "/", "x/y/z/a": ""}},
		{"a file that Lock made is gone like any other", func(s script) {
			_, err := s.Lock("LOCK", false)
			s.ok(err)
		}, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			c.steps(script{t, m})
			before := tree(t, m, ".")
			crashed := m.Crash()
			require.Equal(t, c.want, tree(t, crashed, "."))
			require.Equal(t, c.want, tree(t, crashed.Crash(), "."), "what survived is durable")
			require.Equal(t, before, tree(t, m, "."), "the original is unaffected")
		})
	}
}

func TestCrashLeavesTwoIndependentFileSystems(t *testing.T) {
	m := vfs.NewMem()
	s := script{t, m}
	f := s.create("log")
	s.write(f, "durable")
	s.ok(f.Sync(), s.SyncDir("."))
	s.write(f, ", not synced")

	crashed := m.Crash()
	s.write(f, ", written later")
	s.ok(f.Sync(), f.Close(), s.Remove("log"))
	c := script{t, crashed}
	c.durable("other", "x")

	require.Equal(t, map[string]string{"log": "durable", "other": "x"}, tree(t, crashed, "."))
	require.Empty(t, tree(t, m, "."))
	require.Equal(t, map[string]string{"log": "durable, not synced, written later"}, tree(t, m.Crash(), "."),
		"the removal was not synced")
}

func TestCrashInheritsNoLock(t *testing.T) {
	m := vfs.NewMem()
	held, err := m.Lock("LOCK", false)
	require.NoError(t, err)
	require.NoError(t, m.SyncDir("."))
	crashed := m.Crash()
	again, err := crashed.Lock("LOCK", false)
	require.NoError(t, err)
	_, err = m.Lock("LOCK", true)
	require.Error(t, err)
	require.NoError(t, held.Close())
	require.NoError(t, again.Close())
}

func TestRemovedFileIsReadOn(t *testing.T) {
	m := vfs.NewMem()
	s := script{t, m}
	s.durable("a", "old")
	f, err := m.Open("a")
	require.NoError(t, err)
	s.ok(m.Remove("a"))
	require.Equal(t, "old", readAll(t, f))
	s.durable("a", "new")
	require.Equal(t, "old", readAll(t, f))
	s.durable("b", "newer")
	s.ok(m.Rename("b", "a"))
	require.Equal(t, "old", readAll(t, f))
	require.NoError(t, f.Close())
}

func TestMemLockIsTheFilesNotTheNames(t *testing.T) {
	m := vfs.NewMem()
	held, err := m.Lock("LOCK", false)
	require.NoError(t, err)
	require.NoError(t, m.Link("LOCK", "other"))
	_, err = m.Lock("other", true)
	require.Error(t, err)
	require.NoError(t, held.Close())
}

// The crash tests take a state per operation: each must cost by the number of
// files, not by their bytes.
func TestCrashCopiesNoBytes(t *testing.T) {
	m := vfs.NewMem()
	s := script{t, m}
	f := s.create("a")
	block := make([]byte, 1<<20)
	for range 16 {
		_, err := f.Write(block)
		s.ok(err)
	}
	s.ok(f.Sync(), s.SyncDir("."))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 64 {
		m.Crash()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "64 states of a file of 16 MiB")
}

func BenchmarkCrash(b *testing.B) {
	for _, files := range []int{10, 1000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			m := vfs.NewMem()
			for i := range files {
				f, err := m.Create(fmt.Sprintf("%06d.ldb", i))
				require.NoError(b, err)
				require.NoError(b, f.Close())
			}
			require.NoError(b, m.SyncDir("."))
			b.ReportAllocs()
			for b.Loop() {
				m.Crash()
			}
		})
	}
}

func TestKillLeavesAllNamesAndBytesAndMakesThemDurable(t *testing.T) {
	s := script{t, vfs.NewMem()}
	s.durable("a", "x")
	s.ok(s.MkdirAll("d"), s.Rename("a", "b"), s.Link("b", "d/b"))
	f := s.create("d/new")
	s.write(f, "not synced")
	_, err := s.Lock("LOCK", false)
	s.ok(err)
	killed := s.Kill()
	s.write(f, ", written later")
	s.ok(s.Remove("b"))
	want := map[string]string{"b": "x", "d": "/", "d/b": "x", "d/new": "not synced", "LOCK": ""}
	require.Equal(t, want, tree(t, killed, "."))
	require.Equal(t, want, tree(t, killed.Crash(), "."))
	_, err = killed.Lock("LOCK", false)
	s.ok(err)
	require.Equal(t, "not synced, written later", tree(t, s.Mem, ".")["d/new"])
}

// A writer adds a byte to each file, one after the other, over and over: at any moment
// those before have as many as those behind, or one more.
func TestKillTakesAllFilesAtOneMoment(t *testing.T) {
	const n, rounds = 10, 2000
	s := script{t, vfs.NewMem()}
	var files []vfs.File
	for i := range n {
		files = append(files, s.create(fmt.Sprint(i)))
	}
	writing := make(chan error)
	go func() {
		var err error
		for i := 0; i < n*rounds && err == nil; i++ {
			_, err = files[i%n].Write([]byte{1})
		}
		writing <- err
	}()
	for ended := false; !ended; {
		killed := s.Kill()
		var sizes []int64
		for i := range n {
			info, err := killed.Stat(fmt.Sprint(i))
			s.ok(err)
			sizes = append(sizes, info.Size())
		}
		for i := 1; i < n; i++ {
			require.GreaterOrEqual(t, sizes[i-1], sizes[i], "%v", sizes)
		}
		require.LessOrEqual(t, sizes[0], sizes[n-1]+1, "%v", sizes)
		select {
		case err := <-writing:
			s.ok(err)
			ended = true
		default:
		}
	}
}
