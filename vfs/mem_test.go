package vfs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

// crashes are scripts and the files that remain after a crash.
var crashes = []struct {
	name  string
	steps func(s vfstest.Script)
	want  map[string]string
}{
	{"synced bytes under a durable name survive", func(s vfstest.Script) {
		s.Durable("a", "kept")
	}, map[string]string{"a": "kept"}},
	{"bytes after the last Sync are lost", func(s vfstest.Script) {
		f := s.MustCreate("a")
		s.Append(f, "kept")
		s.OK(f.Sync(), s.SyncDir("."))
		s.Append(f, " lost")
		s.OK(f.Close())
	}, map[string]string{"a": "kept"}},
	{"Close syncs nothing", func(s vfstest.Script) {
		f := s.MustCreate("a")
		s.Append(f, "lost")
		s.OK(f.Close(), s.SyncDir("."))
	}, map[string]string{"a": ""}},
	{"SyncDir syncs no bytes, a later Sync does", func(s vfstest.Script) {
		f := s.MustCreate("a")
		s.OK(s.SyncDir("."))
		s.Append(f, "kept")
		s.OK(f.Sync())
	}, map[string]string{"a": "kept"}},
	{"synced bytes are lost with a name that is not durable", func(s vfstest.Script) {
		f := s.MustCreate("a")
		s.Append(f, "lost")
		s.OK(f.Sync(), f.Close())
	}, map[string]string{}},
	{"SyncDir of another directory does not help", func(s vfstest.Script) {
		s.OK(s.MkdirAll("d"), s.SyncDir("."))
		f := s.MustCreate("d/a")
		s.OK(f.Sync(), s.SyncDir("."))
	}, map[string]string{"d": "/"}},
	{"a rename that was not synced shows the old name", func(s vfstest.Script) {
		s.Durable("a", "x")
		s.OK(s.Rename("a", "b"))
	}, map[string]string{"a": "x"}},
	{"a synced rename shows the new name", func(s vfstest.Script) {
		s.Durable("a", "x")
		s.OK(s.Rename("a", "b"), s.SyncDir("."))
	}, map[string]string{"b": "x"}},
	{"a replacement that was not synced shows both files", func(s vfstest.Script) {
		s.Durable("CURRENT", "old")
		s.Durable("tmp", "new")
		s.OK(s.Rename("tmp", "CURRENT"))
	}, map[string]string{"CURRENT": "old", "tmp": "new"}},
	{"a synced replacement shows the new file", func(s vfstest.Script) {
		s.Durable("CURRENT", "old")
		s.Durable("tmp", "new")
		s.OK(s.Rename("tmp", "CURRENT"), s.SyncDir("."))
	}, map[string]string{"CURRENT": "new"}},
	{"a replacement by unsynced bytes shows an empty file", func(s vfstest.Script) {
		s.Durable("CURRENT", "old")
		f := s.MustCreate("tmp")
		s.Append(f, "new")
		s.OK(f.Close(), s.Rename("tmp", "CURRENT"), s.SyncDir("."))
	}, map[string]string{"CURRENT": ""}},
	{"a rename between directories needs both synced, else it can show twice", func(s vfstest.Script) {
		s.OK(s.MkdirAll("d"))
		s.Durable("a", "x")
		s.OK(s.Rename("a", "d/a"), s.SyncDir("d"))
	}, map[string]string{"a": "x", "d": "/", "d/a": "x"}},
	{"a rename between directories with the source alone synced loses the file", func(s vfstest.Script) {
		s.OK(s.MkdirAll("d"))
		s.Durable("a", "x")
		s.OK(s.Rename("a", "d/a"), s.SyncDir("."))
	}, map[string]string{"d": "/"}},
	{"a removed file reappears", func(s vfstest.Script) {
		s.Durable("a", "x")
		s.OK(s.Remove("a"))
	}, map[string]string{"a": "x"}},
	{"a synced removal is durable", func(s vfstest.Script) {
		s.Durable("a", "x")
		s.OK(s.Remove("a"), s.SyncDir("."))
	}, map[string]string{}},
	{"a file made after a removal does not replace the old one until SyncDir", func(s vfstest.Script) {
		s.Durable("a", "old")
		s.OK(s.Remove("a"))
		f := s.MustCreate("a")
		s.Append(f, "new")
		s.OK(f.Sync())
	}, map[string]string{"a": "old"}},
	{"a file made after a removal replaces the old one after SyncDir", func(s vfstest.Script) {
		s.Durable("a", "old")
		s.OK(s.Remove("a"))
		f := s.MustCreate("a")
		s.Append(f, "new")
		s.OK(f.Sync(), s.SyncDir("."))
	}, map[string]string{"a": "new"}},
	{"a link that was not synced is gone", func(s vfstest.Script) {
		s.Durable("a", "x")
		s.OK(s.Link("a", "b"))
	}, map[string]string{"a": "x"}},
	{"a synced link survives the removal of the first name", func(s vfstest.Script) {
		s.Durable("a", "x")
		s.OK(s.Link("a", "b"), s.Remove("a"), s.SyncDir("."))
	}, map[string]string{"b": "x"}},
	{"a Sync counts for every name of the file", func(s vfstest.Script) {
		f := s.MustCreate("a")
		s.OK(s.Link("a", "b"), s.SyncDir("."))
		s.Append(f, "x")
		s.OK(f.Sync())
	}, map[string]string{"a": "x", "b": "x"}},
	{"a Sync after Remove preserves nothing", func(s vfstest.Script) {
		f := s.MustCreate("a")
		s.OK(s.SyncDir("."), s.Remove("a"), s.SyncDir("."))
		s.Append(f, "x")
		s.OK(f.Sync())
	}, map[string]string{}},
	{"a directory that was not synced is gone with its contents", func(s vfstest.Script) {
		s.OK(s.MkdirAll("d"))
		f := s.MustCreate("d/a")
		s.OK(f.Sync(), s.SyncDir("d"))
	}, map[string]string{}},
	{"MkdirAllSynced makes every level durable", func(s vfstest.Script) {
		s.OK(vfs.MkdirAllSynced(s, "x/y/z"))
		f := s.MustCreate("x/y/z/a")
		s.OK(f.Sync(), s.SyncDir("x/y/z"))
	}, map[string]string{"x": "/", "x/y": "/", "x/y/z": "/", "x/y/z/a": ""}},
	{"an unsynced file made by Lock is gone", func(s vfstest.Script) {
		_, err := s.Lock("LOCK", false)
		s.OK(err)
	}, map[string]string{}},
}

func TestCrash(t *testing.T) {
	for _, c := range crashes {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			c.steps(vfstest.Script{T: t, Mem: m})
			before := vfstest.Tree(t, m, ".")
			crashed := m.Crash()
			require.Equal(t, c.want, vfstest.Tree(t, crashed, "."))
			require.Equal(t, c.want, vfstest.Tree(t, crashed.Crash(), "."), "the surviving state is durable")
			require.Equal(t, before, vfstest.Tree(t, m, "."), "the original is unaffected")
		})
	}
}

func TestCrashReturnsAnIndependentFileSystem(t *testing.T) {
	m := vfs.NewMem()
	s := vfstest.Script{T: t, Mem: m}
	f := s.MustCreate("log")
	s.Append(f, "durable")
	s.OK(f.Sync(), s.SyncDir("."))
	s.Append(f, ", not synced")

	crashed := m.Crash()
	s.Append(f, ", written later")
	s.OK(f.Sync(), f.Close(), s.Remove("log"))
	c := vfstest.Script{T: t, Mem: crashed}
	c.Durable("other", "x")

	require.Equal(t, map[string]string{"log": "durable", "other": "x"}, vfstest.Tree(t, crashed, "."))
	require.Empty(t, vfstest.Tree(t, m, "."))
	require.Equal(t, map[string]string{"log": "durable, not synced, written later"}, vfstest.Tree(t, m.Crash(), "."),
		"the removal was not synced")
}

// shape describes a file: its bytes, and how many KiB of zeros follow.
func shape(t *testing.T, m *vfs.Mem, name string) string {
	t.Helper()
	f := result.Of(m.Open(name))(t)
	got := vfstest.Content(t, f)
	require.NoError(t, f.Close())
	data := strings.TrimRight(got, "\x00")
	return fmt.Sprintf("%s+%dK", data, (len(got)-len(data)+1023)>>10)
}

// The zeros that are reserved behind the records of a log are there after a kill. After a power cut the log is as long
// as at its last Sync, and the records after it are zeros.
func TestWhatRemainsOfALog(t *testing.T) {
	m := vfs.NewMem()
	f := result.Of(m.CreateLog("log"))(t)
	s := vfstest.Script{T: t, Mem: m}
	s.OK(m.SyncDir("."))
	log := f.(vfs.LogFile)
	for _, c := range []struct {
		step          func() error
		killed, crash string
	}{
		{func() error { return nil }, "+0K", "+0K"},
		{func() error { s.Append(f, "one"); return nil }, "one+64K", "+0K"},
		{f.Sync, "one+64K", "one+64K"},
		{func() error { s.Append(f, "two"); return nil }, "onetwo+64K", "one+64K"},
		{func() error { s.Append(f, strings.Repeat("x", 60<<10)); return nil }, "", "one+64K"},
		{func() error { s.Append(f, strings.Repeat("x", 5<<10)); return nil }, "", "one+64K"},
		{log.Cut, "", "one+64K"},
		{f.Sync, "", ""},
	} {
		s.OK(c.step())
		if c.killed != "" {
			require.Equal(t, c.killed, shape(t, m.Kill(), "log"))
			require.Equal(t, c.killed, shape(t, m.Kill().Crash(), "log"), "it is durable")
		}
		if c.crash != "" {
			require.Equal(t, c.crash, shape(t, m.Crash(), "log"))
		}
	}
	want := "onetwo" + strings.Repeat("x", 65<<10) + "+0K"
	require.Equal(t, want, shape(t, m.Kill(), "log"))
	require.Equal(t, want, shape(t, m.Crash(), "log"))
	s.OK(f.Close())
}

func TestAReservedLogTakesNoMemory(t *testing.T) {
	m := vfs.NewMem()
	s := vfstest.Script{T: t, Mem: m}
	before := damage.Allocated()
	for i := range 500 {
		f, err := m.CreateLog(fmt.Sprint(i))
		s.OK(err)
		s.Append(f, "a record")
	}
	require.Less(t, damage.Allocated()-before, uint64(1<<20), "500 logs of 64 KiB")
}

func TestCrashInheritsNoLock(t *testing.T) {
	m := vfs.NewMem()
	held := result.Of(m.Lock("LOCK", false))(t)
	require.NoError(t, m.SyncDir("."))
	crashed := m.Crash()
	again := result.Of(crashed.Lock("LOCK", false))(t)
	require.Error(t, result.Err(m.Lock("LOCK", true)))
	require.NoError(t, held.Close())
	require.NoError(t, again.Close())
}

func TestRemovedFileStaysReadable(t *testing.T) {
	m := vfs.NewMem()
	s := vfstest.Script{T: t, Mem: m}
	s.Durable("a", "old")
	f := result.Of(m.Open("a"))(t)
	s.OK(m.Remove("a"))
	require.Equal(t, "old", vfstest.Content(t, f))
	s.Durable("a", "new")
	require.Equal(t, "old", vfstest.Content(t, f))
	s.Durable("b", "newer")
	s.OK(m.Rename("b", "a"))
	require.Equal(t, "old", vfstest.Content(t, f))
	require.NoError(t, f.Close())
}

func TestMemLockBelongsToTheFile(t *testing.T) {
	m := vfs.NewMem()
	held := result.Of(m.Lock("LOCK", false))(t)
	require.NoError(t, m.Link("LOCK", "other"))
	require.Error(t, result.Err(m.Lock("other", true)))
	require.NoError(t, held.Close())
}

// The crash tests take a snapshot per operation: its cost must depend on the number of files, not on their bytes.
func TestCrashCopiesNoBytes(t *testing.T) {
	m := vfs.NewMem()
	s := vfstest.Script{T: t, Mem: m}
	f := s.MustCreate("a")
	block := make([]byte, 1<<20)
	for range 16 {
		_, err := f.Write(block)
		s.OK(err)
	}
	s.OK(f.Sync(), s.SyncDir("."))
	before := damage.Allocated()
	for range 64 {
		m.Crash()
	}
	require.Less(t, damage.Allocated()-before, uint64(1<<20), "64 snapshots of a file of 16 MiB")
}

func TestKillKeepsAllNamesAndBytes(t *testing.T) {
	s := vfstest.Script{T: t, Mem: vfs.NewMem()}
	s.Durable("a", "x")
	s.OK(s.MkdirAll("d"), s.Rename("a", "b"), s.Link("b", "d/b"))
	f := s.MustCreate("d/new")
	s.Append(f, "not synced")
	_, err := s.Lock("LOCK", false)
	s.OK(err)
	killed := s.Kill()
	s.Append(f, ", written later")
	s.OK(s.Remove("b"))
	want := map[string]string{"b": "x", "d": "/", "d/b": "x", "d/new": "not synced", "LOCK": ""}
	require.Equal(t, want, vfstest.Tree(t, killed, "."))
	require.Equal(t, want, vfstest.Tree(t, killed.Crash(), "."))
	_, err = killed.Lock("LOCK", false)
	s.OK(err)
	require.Equal(t, "not synced, written later", vfstest.Tree(t, s.Mem, ".")["d/new"])
}

// A writer repeatedly appends a byte to each file in turn: at any moment the files before its
// position have one byte more than those after it, or the same.
func TestKillIsAtomicAcrossFiles(t *testing.T) {
	const n, rounds = 10, 2000
	s := vfstest.Script{T: t, Mem: vfs.NewMem()}
	var files []vfs.File
	for i := range n {
		files = append(files, s.MustCreate(fmt.Sprint(i)))
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
			s.OK(err)
			sizes = append(sizes, info.Size())
		}
		for i := 1; i < n; i++ {
			require.GreaterOrEqual(t, sizes[i-1], sizes[i], "%v", sizes)
		}
		require.LessOrEqual(t, sizes[0], sizes[n-1]+1, "%v", sizes)
		select {
		case err := <-writing:
			s.OK(err)
			ended = true
		default:
		}
	}
}
