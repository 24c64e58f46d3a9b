package order

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("dir"))
		return New(mem), "dir"
	})
}

// store does the steps of a store one by one, so each test can leave one out.
type store struct {
	*testing.T
	*FS
	manifest *wal.Writer
}

func (s *store) path(kind base.FileKind, num uint64) string {
	return filepath.Join("db", base.FileName(kind, num))
}

func (s *store) file(name, content string, sync bool) vfs.File {
	f, err := s.Create(name)
	require.NoError(s, err)
	_, err = f.Write([]byte(content))
	require.NoError(s, err)
	if sync {
		require.NoError(s, f.Sync())
	}
	return f
}

// log makes a log with one record by CreateLog and does the steps with it.
func (s *store) log(num uint64, steps ...func(l vfs.LogFile) error) vfs.File {
	f, err := s.CreateLog(s.path(base.FileLog, num))
	require.NoError(s, err)
	_, err = f.Write([]byte("x"))
	require.NoError(s, err)
	s.syncDir()
	for _, step := range steps {
		require.NoError(s, step(f.(vfs.LogFile)))
	}
	return f
}

func (s *store) table(num uint64, sync bool) {
	require.NoError(s, s.file(s.path(base.FileTable, num), strings.Repeat("t", 100), sync).Close())
}

func (s *store) syncDir() { require.NoError(s, s.SyncDir("db")) }

func addTable(num uint64) version.LevelFile {
	key := base.AppendInternalKey(nil, []byte("k"), 1, base.KindSet)
	return version.LevelFile{Level: 1, File: version.NewFileMeta(num, 100, key, key)}
}

func (s *store) edit(sync bool, e *manifest.Edit) {
	require.NoError(s, s.manifest.WriteRecord(e.Encode(nil)))
	if sync {
		require.NoError(s, s.manifest.Sync())
	}
}

func (s *store) newManifest(num uint64, sync, syncDir bool, e *manifest.Edit) {
	f, err := s.Create(s.path(base.FileManifest, num))
	require.NoError(s, err)
	s.manifest = wal.NewWriter(f)
	s.edit(sync, e)
	if syncDir {
		s.syncDir()
	}
}

func (s *store) current(num uint64, sync, syncDir bool) {
	tmp := s.path(base.FileTemp, num)
	require.NoError(s, s.file(tmp, base.FileName(base.FileManifest, num)+"\n", sync).Close())
	require.NoError(s, s.Rename(tmp, filepath.Join("db", base.CurrentName)))
	if syncDir {
		s.syncDir()
	}
}

// closed writes CLOSED for log 4 and MANIFEST 3.
func (s *store) closed(sync, syncLog, closeManifest bool) {
	log := s.file(s.path(base.FileLog, 4), "x", false)
	s.syncDir()
	if syncLog {
		require.NoError(s, log.Sync())
	}
	require.NoError(s, log.Close())
	s.mark(sync, closeManifest)
}

// mark makes CLOSED for them.
func (s *store) mark(sync, closeManifest bool) {
	if closeManifest {
		require.NoError(s, s.manifest.Close())
	}
	mark := make([]byte, 64)
	mark[8], mark[28] = 4, 3
	tmp := s.path(base.FileTemp, 9)
	require.NoError(s, s.file(tmp, string(mark), sync).Close())
	require.NoError(s, s.Rename(tmp, filepath.Join("db", base.ClosedName)))
}

// open creates a database with table 1 and MANIFEST 3.
func open(t *testing.T, fsys vfs.FS) *store {
	s := &store{T: t, FS: New(fsys)}
	require.NoError(t, s.MkdirAll("db"))
	lock, err := s.Lock("db/LOCK", false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lock.Close() })
	s.table(1, true)
	s.syncDir()
	s.newManifest(3, true, true, &manifest.Edit{LogNum: manifest.Num(2), Added: []version.LevelFile{addTable(1)}})
	s.current(3, true, true)
	require.Empty(t, s.Violations())
	return s
}

// brokenRules are steps of a store, and the rules that they violate.
var brokenRules = []struct {
	claim string
	rule  int // 0 if no rule is violated
	do    func(s *store)
}{
	{"a table is synced, then named", 0, func(s *store) {
		s.table(5, true)
		s.syncDir()
		s.edit(true, &manifest.Edit{Added: []version.LevelFile{addTable(5)}})
	}},
	{"a table's bytes are not synced", 1, func(s *store) {
		s.table(5, false)
		s.syncDir()
		s.edit(true, &manifest.Edit{Added: []version.LevelFile{addTable(5)}})
	}},
	{"a table's name is not durable", 1, func(s *store) {
		s.table(5, true)
		s.edit(true, &manifest.Edit{Added: []version.LevelFile{addTable(5)}})
	}},
	{"a table's name is not durable and the edit is in the second block of the MANIFEST", 1, func(s *store) {
		for i := range 1000 {
			s.edit(true, &manifest.Edit{Comparer: strings.Repeat("c", 1+i)})
		}
		require.Empty(s, s.Violations())
		s.table(5, true)
		s.edit(true, &manifest.Edit{Added: []version.LevelFile{addTable(5)}})
	}},
	{"a table of a new MANIFEST was removed", 1, func(s *store) {
		s.edit(true, &manifest.Edit{Deleted: []version.DeletedFile{{Level: 1, Num: 1}}})
		require.NoError(s, s.Remove(s.path(base.FileTable, 1)))
		s.newManifest(9, true, true, &manifest.Edit{Added: []version.LevelFile{addTable(1)}})
	}},
	{"a log's name is made durable, then the log is synced", 0, func(s *store) {
		f := s.file(s.path(base.FileLog, 4), "x", false)
		s.syncDir()
		require.NoError(s, f.Sync())
	}},
	{"a log's name is not durable", 2, func(s *store) { s.file(s.path(base.FileLog, 4), "x", true) }},
	{"an older log was not synced", 2, func(s *store) {
		s.file(s.path(base.FileLog, 4), "x", false)
		f := s.file(s.path(base.FileLog, 5), "x", false)
		s.syncDir()
		require.NoError(s, f.Sync())
	}},
	{"an older log was cut, then synced", 0, func(s *store) {
		s.log(4, vfs.LogFile.Cut, vfs.LogFile.Sync)
		s.log(5, vfs.LogFile.Sync)
	}},
	{"an older log was synced, but not cut", 2, func(s *store) {
		s.log(4, vfs.LogFile.Sync)
		s.log(5, vfs.LogFile.Sync)
	}},
	{"an older log was cut after its sync", 2, func(s *store) {
		s.log(4, vfs.LogFile.Sync, vfs.LogFile.Cut)
		s.log(5, vfs.LogFile.Sync)
	}},
	{"an older log was cut by its Close, after its sync", 2, func(s *store) {
		s.log(4, vfs.LogFile.Sync, vfs.LogFile.Close)
		s.log(5, vfs.LogFile.Sync)
	}},
	{"an older log was cut and synced by name", 0, func(s *store) {
		s.log(4, vfs.LogFile.Close)
		require.NoError(s, s.SyncFile(s.path(base.FileLog, 4)))
		s.log(5, vfs.LogFile.Sync)
	}},
	{"an older log of zeros is not needed", 0, func(s *store) {
		s.log(4, vfs.LogFile.Sync)
		s.edit(true, &manifest.Edit{LogNum: manifest.Num(5)})
		s.log(5, vfs.LogFile.Sync)
	}},
	{"an older log was not synced and is not needed", 0, func(s *store) {
		s.file(s.path(base.FileLog, 4), "x", false)
		f := s.file(s.path(base.FileLog, 5), "x", false)
		s.syncDir()
		s.edit(true, &manifest.Edit{LogNum: manifest.Num(5)})
		require.NoError(s, f.Sync())
	}},
	{"a new MANIFEST is put in force", 0, func(s *store) {
		s.newManifest(9, true, true, &manifest.Edit{Added: []version.LevelFile{addTable(1)}})
		s.current(9, true, true)
		require.NoError(s, s.Remove(s.path(base.FileManifest, 3)))
	}},
	{"CURRENT's bytes are not synced", 3, func(s *store) {
		s.newManifest(9, true, true, &manifest.Edit{})
		s.current(9, false, true)
	}},
	{"a MANIFEST's bytes are not synced", 3, func(s *store) {
		s.newManifest(9, false, true, &manifest.Edit{})
		s.current(9, true, true)
	}},
	{"a MANIFEST's name is not durable", 3, func(s *store) {
		s.newManifest(9, true, false, &manifest.Edit{})
		s.current(9, true, true)
	}},
	{"CURRENT names a file that does not exist", 3, func(s *store) {
		require.NoError(s, s.Remove(s.path(base.FileManifest, 3)))
		s.mu.Lock()
		s.violations = nil // of the removal
		s.mu.Unlock()
		s.current(3, true, true)
	}},
	{"a live table is removed", 4, func(s *store) { require.NoError(s, s.Remove(s.path(base.FileTable, 1))) }},
	{"a table is removed before the edit is synced", 4, func(s *store) {
		s.edit(false, &manifest.Edit{Deleted: []version.DeletedFile{{Level: 1, Num: 1}}})
		require.NoError(s, s.Remove(s.path(base.FileTable, 1)))
	}},
	{"a table is removed after its edit", 0, func(s *store) {
		s.edit(true, &manifest.Edit{Deleted: []version.DeletedFile{{Level: 1, Num: 1}}})
		require.NoError(s, s.Remove(s.path(base.FileTable, 1)))
	}},
	{"a table is removed after an edit of several Writes", 0, func(s *store) {
		s.edit(true, &manifest.Edit{
			Deleted: []version.DeletedFile{{Level: 1, Num: 1}},
			CompactPointers: []manifest.CompactPointer{{
				Level: 1, Key: base.AppendInternalKey(make([]byte, 4<<20), nil, 1, base.KindSet),
			}},
		})
		require.NoError(s, s.Remove(s.path(base.FileTable, 1)))
	}},
	{"a needed log is removed", 4, func(s *store) {
		s.file(s.path(base.FileLog, 4), "x", false)
		require.NoError(s, s.Remove(s.path(base.FileLog, 4)))
	}},
	{"the previous MANIFEST is removed before the renaming of CURRENT is durable", 4, func(s *store) {
		s.newManifest(9, true, true, &manifest.Edit{Added: []version.LevelFile{addTable(1)}})
		s.current(9, true, false)
		require.NoError(s, s.Remove(s.path(base.FileManifest, 3)))
	}},
	{"CLOSED names a complete log and MANIFEST", 0, func(s *store) { s.closed(true, true, true) }},
	{"CLOSED's bytes are not synced", 7, func(s *store) { s.closed(false, true, true) }},
	{"CLOSED names a log that is not synced", 7, func(s *store) { s.closed(true, false, true) }},
	{"CLOSED names a log that may have zeros", 7, func(s *store) {
		s.log(4, vfs.LogFile.Sync, vfs.LogFile.Close)
		s.mark(true, true)
	}},
	{"CLOSED names a log that was cut and synced", 0, func(s *store) {
		s.log(4, vfs.LogFile.Cut, vfs.LogFile.Sync, vfs.LogFile.Close)
		s.mark(true, true)
	}},
	{"CLOSED names a MANIFEST that is open", 7, func(s *store) { s.closed(true, true, false) }},
	{"a file is written after its Close", 6, func(s *store) {
		f := s.file(s.path(base.FileLog, 4), "x", false)
		require.NoError(s, f.Close())
		_, err := f.Write([]byte("y"))
		require.Error(s, err)
	}},
}

func TestEachBrokenRuleIsReported(t *testing.T) {
	for _, c := range brokenRules {
		t.Run(c.claim, func(t *testing.T) {
			s := open(t, vfs.NewMem())
			c.do(s)
			if c.rule == 0 {
				require.Empty(t, s.Violations())
				return
			}
			require.NotEmpty(t, s.Violations())
			for _, v := range s.Violations() {
				require.True(t, strings.HasPrefix(v, fmt.Sprintf("rule %d: ", c.rule)), v)
			}
		})
	}
}

func TestWritesToAFailedFileAreReported(t *testing.T) {
	for _, kind := range []wrap.OpKind{wrap.OpWrite, wrap.OpSync} {
		t.Run(kind.String(), func(t *testing.T) {
			fail := false
			s := open(t, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
				if fail && op.Kind == kind {
					return &wrap.Fault{Short: 1}
				}
				return nil
			}))
			f := s.file(s.path(base.FileLog, 4), "x", false)
			fail = true
			_, _ = f.Write([]byte("y"))
			_ = f.Sync()
			fail = false
			before := len(s.Violations())
			_, err := f.Write([]byte("z"))
			require.NoError(t, err)
			require.Len(t, s.Violations(), before+1)
			require.Contains(t, s.Violations()[before], "rule 5: ")
		})
	}
}

func TestALogIsNotTouchedAfterAFailedCut(t *testing.T) {
	s := open(t, wrap.NewFaulty(vfs.NewMem(), wrap.FailIf(nil, func(op wrap.Op) bool { return op.Kind == wrap.OpCut })))
	f := s.log(4)
	require.Error(t, f.(vfs.LogFile).Cut())
	require.Empty(t, s.Violations())
	require.NoError(t, f.Sync())
	require.Len(t, s.Violations(), 1)
	require.Contains(t, s.Violations()[0], "rule 5: sync of db/000004.log after a failed cut")
}

func TestExistingFilesAreProtectedToo(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		mem := vfs.NewMem()
		before := open(t, mem)
		require.NoError(t, before.SyncDir("."))
		s := &store{T: t, FS: New(mem.Crash())}
		lock, err := s.Lock("db/LOCK", false)
		require.NoError(t, err)
		if renamed {
			s.newManifest(9, true, true, &manifest.Edit{})
			s.current(9, true, false)
		}
		require.NoError(t, s.Remove(s.path(base.FileTable, 1)))
		require.Len(t, s.Violations(), 1)
		require.Contains(t, s.Violations()[0], "rule 4: ")
		require.NoError(t, lock.Close())
	}
}

// The checker forgot names that a later SyncDir had made durable, and then reported the removal of a
// MANIFEST that was no longer in force.
func TestALateSyncDirUndoesNoNewerOne(t *testing.T) {
	began, late := make(chan struct{}), make(chan struct{})
	syncs := 0
	mem := vfs.NewMem()
	s := &store{T: t, FS: New(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpSyncDir {
			return nil
		}
		if syncs++; syncs == 3 { // the first two are for the first MANIFEST
			close(began)
			<-late
		}
		return nil
	}))}
	require.NoError(t, mem.MkdirAll("db"))
	s.newManifest(2, true, true, &manifest.Edit{})
	s.current(2, true, true)
	ended := make(chan error)
	go func() { ended <- s.SyncDir("db") }()
	<-began
	s.newManifest(5, true, true, &manifest.Edit{})
	s.current(5, true, true)
	close(late)
	require.NoError(t, <-ended)
	require.NoError(t, s.Remove(s.path(base.FileManifest, 2)))
	require.Empty(t, s.Violations())
}
