package backup_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// killedBackup returns what a process leaves that is killed after it has stored some objects of a backup.
func killedBackup(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	var killed *vfs.Mem
	objects := 0
	d := open(t, "db", smallOptions(mem))
	fill(t, d, 0, 300, strings.Repeat("value", 20))
	require.NoError(t, d.Compact(background, nil, nil))
	create(t, backup.Open(newDir(t, wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpLink && strings.HasPrefix(filepath.ToSlash(op.NewName), "repo/objects/") {
			if objects++; objects == 3 {
				killed = mem.Kill()
			}
		}
		return nil
	}), "repo")), d, nil)
	return killed
}

// The objects of a killed backup stayed for 96 hours. The lock of its checkpoint is free, so Prune removes them at
// once, with the temporary object, also when the database has been opened again.
func TestPruneRemovesTheObjectsOfAKilledBackup(t *testing.T) {
	for _, opened := range []bool{false, true} {
		mem := killedBackup(t)
		if opened {
			require.NoError(t, open(t, "db", smallOptions(mem)).Close())
		}
		repo := backup.Open(newDir(t, mem, "repo"))
		dry := result.Of(repo.Prune(background, backup.Policy{KeepLast: 1, DryRun: true}))(t)
		report := keepLast(t, repo, 1)
		require.Equal(t, [2]int{2, 0}, [2]int{report.Objects, report.Waiting})
		require.Equal(t, [2]int64{2, report.Bytes}, [2]int64{int64(dry.Objects), dry.Bytes})
		for _, dir := range []string{"objects", "running", "tmp", "condemned", "waits"} {
			require.Empty(t, filesIfAny(t, mem, "repo/"+dir), dir)
		}
	}
}

// A running backup keeps what it has stored: its lock is held, or cannot be looked at.
func TestPruneKeepsTheObjectsOfARunningBackup(t *testing.T) {
	mem := vfs.NewMem()
	d := open(t, "db", smallOptions(mem))
	fill(t, d, 0, 300, strings.Repeat("value", 20))
	pruned := 0
	create(t, backup.Open(newDir(t, wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpLink && strings.HasPrefix(filepath.ToSlash(op.NewName), "repo/objects/") {
			pruned++
			report := keepLast(t, backup.Open(newDir(t, mem, "repo")), 1)
			require.Zero(t, report.Objects)
		}
		return nil
	}), "repo")), d, nil)
	require.Positive(t, pruned)

	mem = killedBackup(t)
	names := result.Of(mem.List("db/backup"))(t)
	for _, name := range names {
		if strings.HasSuffix(name, ".lock") {
			require.NoError(t, mem.Remove("db/backup/"+name)) // as on another machine
		}
	}
	report := keepLast(t, backup.Open(newDir(t, mem, "repo")), 1)
	require.Zero(t, report.Objects)
	require.NotEmpty(t, files(t, mem, "repo/objects"))
}

// The next backup of the database removes the announcement of a killed one before its lock.
func TestABackupAfterAKilledOneLeavesNoAnnouncement(t *testing.T) {
	mem := killedBackup(t)
	repo := backup.Open(newDir(t, mem, "repo"))
	create(t, repo, open(t, "db", smallOptions(mem)), nil)
	require.Empty(t, files(t, mem, "repo/running"))
	require.Empty(t, files(t, mem, "repo/tmp"), "nothing would say that it can be removed")
	verifyClean(t, repo)
}

// A repository may be one that somebody else can write to: an announcement in it must not lock other programs' files.
func TestAnAnnouncementCannotNameAnotherFileThanALockOfABackup(t *testing.T) {
	mem := vfs.NewMem()
	d := open(t, "db", smallOptions(mem))
	var locked []string
	repo := backup.Open(newDir(t, wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpLock {
			locked = append(locked, op.Name)
		}
		return nil
	}), "repo"))
	info := create(t, repo, d, nil)
	host := result.Of(os.Hostname())(t)
	fixture.WriteFile(t, mem, "other.lock", nil)
	text := fmt.Appendf(nil, "database \"\"\nhost %q\nlock \"other.lock\"\n", host)
	fixture.WriteFile(t, mem, "repo/running/"+info.ID, text)
	keepLast(t, repo, 1)
	require.NotContains(t, locked, "other.lock")
	require.Len(t, files(t, mem, "repo/running"), 1)
}

// smallDisk is a file system for the repository with a limit of bytes.
type smallDisk struct {
	*wrap.Faulty
	mem   *vfs.Mem
	limit atomic.Int64 // in bytes
	full  atomic.Int64 // how much was used when a write failed first
}

func newSmallDisk(mem *vfs.Mem, root string) *smallDisk {
	s := &smallDisk{mem: mem}
	s.limit.Store(1 << 40)
	s.Faulty = wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpWrite && strings.HasPrefix(filepath.ToSlash(op.Name), root+"/") && s.used(root)+int64(op.Length) > s.limit.Load() {
			s.full.CompareAndSwap(0, s.used(root))
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	return s
}

// used adds up the sizes of the files, in blocks. A file with two names counts twice.
func (s *smallDisk) used(dir string) (bytes int64) {
	names, _ := s.mem.List(dir)
	for _, name := range names {
		info, err := s.mem.Lstat(dir + "/" + name)
		switch {
		case err != nil:
		case info.IsDir():
			bytes += s.used(dir + "/" + name)
		default:
			bytes += (info.Size() + 4095) &^ 4095
		}
	}
	return bytes
}

// A backup fills the disk of the repository and fails. Prune could not write the list of the objects that it wanted to
// delete, so nothing could be freed.
func TestPruneFreesTheObjectsOfABackupThatFilledTheDisk(t *testing.T) {
	mem := vfs.NewMem()
	d := open(t, "db", smallOptions(mem))
	fill(t, d, 0, 2000, strings.Repeat("value", 20))
	require.NoError(t, d.Compact(background, nil, nil))
	disk := newSmallDisk(mem, "repo")
	repo := backup.Open(newDir(t, disk, "repo"))
	disk.limit.Store(200 << 10)
	_, err := repo.Create(background, d, nil)
	require.True(t, errors.Is(err, syscall.ENOSPC), err)
	before := len(files(t, mem, "repo/objects"))
	require.Greater(t, before, 2)
	disk.limit.Store(disk.full.Load()) // other programs use the rest
	report := keepLast(t, repo, 1)
	require.Equal(t, before, report.Objects)
	require.Empty(t, files(t, mem, "repo/objects"))
}

func filesIfAny(t *testing.T, mem *vfs.Mem, dir string) []string {
	if _, err := mem.Stat(dir); err != nil {
		return nil
	}
	return files(t, mem, dir)
}

func FuzzAnnouncement(f *testing.F) {
	f.Add([]byte("database \"orders\"\n"))
	f.Add([]byte("database \"\"\nhost \"h\"\nlock \"/db/backup/x.lock\"\nreserve \"0\"\nlater"))
	f.Fuzz(func(t *testing.T, text []byte) {
		again := backup.AnnouncementAgain(text)
		require.Equal(t, string(again), string(backup.AnnouncementAgain(again)))
	})
}
