package backup_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// database makes a database with one key.
func database(t *testing.T, dir string, o *db.Options) *db.DB {
	t.Helper()
	d := open(t, dir, o)
	put(t, d, "key", dir)
	return d
}

// A restore to x needs a directory x.restore. Once, it removed all files of a database that was there.
func TestADatabaseWithTheNameOfAnUnfinishedRestoreStays(t *testing.T) {
	mem := vfs.NewMem()
	repo := backup.Open(backuptest.NewMem())
	o := &backup.RestoreOptions{FS: mem}
	create(t, repo, database(t, "db", smallOptions(mem)), nil)
	require.NoError(t, database(t, "x.restore", smallOptions(mem)).Close())
	_, err := repo.Restore(background, "", "x", o)
	require.ErrorContains(t, err, "is not what an interrupted call left; move it away")
	require.Equal(t, "x.restore", contents(t, open(t, "x.restore", smallOptions(mem)))["key"])

	// That of another directory stays as well. An interrupted one is replaced, also if the directory is there.
	unfinished := func(dir, marker string) {
		require.NoError(t, mem.MkdirAll(dir))
		for name, text := range map[string]string{"000000.dbtmp": marker, "CURRENT": "text", "LOCK": ""} {
			fixture.WriteFile(t, mem, dir+"/"+name, []byte(text))
		}
	}
	unfinished("y.restore", "zzz")
	_, err = repo.Restore(background, "", "y", o)
	require.ErrorContains(t, err, "is of an interrupted call for another directory; remove it")
	for dir, make := range map[string]func(string) error{"z": nil, "e": mem.MkdirAll} {
		unfinished(dir+".restore", dir)
		if make != nil {
			require.NoError(t, make(dir))
		}
		result.Of(repo.Restore(background, "", dir, o))(t)
		names := result.Of(mem.List(dir))(t)
		require.NotContains(t, names, "000000.dbtmp")
		require.Equal(t, "db", contents(t, open(t, dir, smallOptions(mem)))["key"])
	}
}

// A database that was restored as db.backup-ID, a natural name, looked like the checkpoint of an interrupted
// backup of db, and was removed.
func TestADatabaseWithTheNameOfACheckpointStays(t *testing.T) {
	mem := vfs.NewMem()
	repo := backup.Open(backuptest.NewMem())
	d := database(t, "db", smallOptions(mem))
	info := create(t, repo, d, nil)
	dir := "db.backup-" + info.ID
	restore(t, repo, "", dir, mem)
	for _, parent := range []string{".", ""} {
		create(t, repo, d, &backup.CreateOptions{CheckpointParent: parent})
	}
	require.Equal(t, "db", contents(t, open(t, dir, &db.Options{FS: mem, ErrorIfMissing: true}))["key"])
}

// An empty directory is filled and not replaced: it may be the working directory, and it keeps its mode.
func TestAnEmptyDirectoryIsFilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename the working directory of a process; Restore says so")
	}
	dir := t.TempDir()
	repo := backup.Open(newDir(t, nil, dir+"/repo"))
	d := database(t, dir+"/db", nil)
	info := create(t, repo, d, nil)
	require.NoError(t, os.Mkdir(dir+"/here", 0o711))
	t.Chdir(dir + "/here")
	before := result.Of(os.Stat("."))(t)

	// After an error it is there, and empty.
	objects := result.Of(filepath.Glob(dir + "/repo/objects/*/*"))(t)
	text := result.Of(os.ReadFile(objects[0]))(t)
	require.NoError(t, os.WriteFile(objects[0], []byte("damage"), 0o600))
	require.ErrorIs(t, result.Err(repo.Restore(background, info.ID, ".", nil)), db.ErrCorruption)
	names := result.Of(os.ReadDir(dir + "/here"))(t)
	require.Empty(t, names)
	require.NoError(t, os.WriteFile(objects[0], text, 0o600))

	result.Of(repo.Restore(background, info.ID, ".", nil))(t)
	after := result.Of(os.Stat(dir + "/here"))(t)
	require.True(t, os.SameFile(before, after))
	require.Equal(t, before.Mode(), after.Mode())
	require.NoError(t, open(t, ".", &db.Options{ErrorIfMissing: true}).Close())
}

// That a mount point cannot be replaced was noticed when all files were copied to the file system above it.
func TestAMountPointIsRefusedBeforeFilesAreCopied(t *testing.T) {
	repo := backup.Open(backuptest.NewMem())
	create(t, repo, database(t, "db", smallOptions(vfs.NewMem())), nil)
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("mounted"))
	_, err := repo.Restore(background, "", "mounted", &backup.RestoreOptions{FS: wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		require.NotEqual(t, wrap.OpCreate, op.Kind, "a file is copied")
		if op.Kind == wrap.OpRename {
			return &wrap.Fault{Err: fs.ErrPermission}
		}
		return nil
	})})
	require.ErrorContains(t, err, "choose a directory that does not exist")
	names := result.Of(mem.List("."))(t)
	require.Equal(t, []string{"mounted"}, names)
}

// A database that appears in the empty directory when it has been checked, just before it is locked, stays there.
func TestADirectoryThatIsFilledMeanwhileIsNotReplaced(t *testing.T) {
	repo := backup.Open(backuptest.NewMem())
	create(t, repo, database(t, "db", smallOptions(vfs.NewMem())), nil)
	for _, open := range []bool{false, true} {
		mem, made := vfs.NewMem(), false
		require.NoError(t, mem.MkdirAll("x"))
		_, err := repo.Restore(background, "", "x", &backup.RestoreOptions{FS: wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpLock && !made {
				made = true
				d := database(t, "x", smallOptions(mem))
				if !open {
					require.NoError(t, d.Close())
				}
			}
			return nil
		})})
		require.Error(t, err)
		require.ErrorIs(t, result.Err(mem.Stat("x.restore")), fs.ErrNotExist)
		got := result.Of(read(mem.Kill(), "x"))(t)
		require.Equal(t, map[string]string{"key": "x"}, got)
	}
}

// Several calls restore to one directory, which is there or not. One of them at most succeeds, and the directory
// is complete, or empty or missing.
func TestRestoresToOneDirectoryAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	d := database(t, dir+"/db", nil)
	fill(t, d, 0, 300, "value")
	want := contents(t, d)
	repo := backup.Open(backuptest.NewMem())
	create(t, repo, d, nil)
	for i := range 20 {
		dest := fmt.Sprint(dir, "/restored", i)
		if i%2 == 0 {
			require.NoError(t, os.Mkdir(dest, 0o700))
		}
		var group sync.WaitGroup
		var succeeded atomic.Int32
		for range 4 {
			group.Go(func() {
				if second(repo.Restore(background, "", dest, nil)) == nil {
					succeeded.Add(1)
				}
			})
		}
		group.Wait()
		require.LessOrEqual(t, succeeded.Load(), int32(1))
		if succeeded.Load() == 0 { // each of them was in the way of another one
			require.NoError(t, second(repo.Restore(background, "", dest, nil)))
		}
		got := result.Of(read(vfs.OS, dest))(t)
		require.Equal(t, want, got)
		require.ErrorIs(t, result.Err(os.Stat(dest+".restore")), fs.ErrNotExist)
	}
}

// The repository and a database are apart.
func TestARepositoryInADatabaseIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	o := smallOptions(mem)
	o.LogDir = "logs"
	d := database(t, "a/db", o)
	for _, dir := range []string{"a/db", "a/db/repo", "a/db/x/../y/repo", "logs/repo", "a", "."} {
		_, err := backup.Open(newDir(t, mem, dir)).Create(background, d, nil)
		require.Error(t, err, dir)
		if dir != "a/db" && dir != "." {
			require.ErrorContains(t, err, "choose directories apart", dir)
		}
		require.ErrorIs(t, result.Err(mem.Stat(dir+"/FORMAT")), fs.ErrNotExist, dir)
	}
	repo := backup.Open(newDir(t, mem, "repo"))
	info := create(t, repo, d, nil)
	for _, dir := range []string{"repo", "repo/x", "repo/objects/x/y", "db/../repo/running"} {
		_, err := repo.Restore(background, info.ID, dir, &backup.RestoreOptions{FS: mem})
		require.ErrorContains(t, err, "choose directories apart", dir)
	}
	restore(t, repo, info.ID, "repo2", mem)
}

// The bug: a repository in the directory of the logs was accepted if the database had recorded that directory, and Open
// was not passed it again.
func TestARepositoryInARecordedLogDirectoryIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	o := smallOptions(mem)
	o.LogDir = "logs"
	d := result.Of(db.Open("db", o))(t)
	require.NoError(t, d.Close())
	o.LogDir = ""
	d = open(t, "db", o)
	_, err := backup.Open(newDir(t, mem, "logs/repo")).Create(background, d, nil)
	require.ErrorContains(t, err, "choose directories apart")
	_, err = backup.Open(backuptest.NewMem()).Create(background, d, &backup.CreateOptions{CheckpointParent: "logs/parent"})
	require.ErrorContains(t, err, "belongs to the database")
}

// The first backups of several machines are made at the same moment. A listing may show their objects in
// any order, FORMAT last.
func TestFirstBackupsAtTheSameTime(t *testing.T) {
	for range 60 {
		s := backuptest.NewMem()
		var group sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			d := open(t, "db", smallOptions(vfs.NewMem()))
			group.Go(func() { errs[i] = second(backup.Open(s).Create(background, d, nil)) })
		}
		group.Wait()
		require.Equal(t, make([]error, 3), errs)
	}
}

// Another backup finds the file of a lock before it is locked, so often.
func TestBackupsThatCleanUpAtTheSameTime(t *testing.T) {
	mem, left := vfs.NewMem(), 0
	d := database(t, "db", smallOptions(wrap.NewFaulty(mem, wrap.FailIf(base.ErrLocked, func(op wrap.Op) bool {
		if op.Kind != wrap.OpLock || !strings.HasSuffix(op.Name, ".lock") || left == 0 {
			return false
		}
		left--
		return true
	}))))
	repo := backup.Open(backuptest.NewMem())
	left = 3
	create(t, repo, d, nil)
	left = 1000
	require.ErrorIs(t, second(repo.Create(background, d, nil)), base.ErrLocked)
	left = 0
	names := result.Of(mem.List("."))(t)
	require.Equal(t, []string{"db"}, names)
}

// The newest backup is that which is there when it is opened.
func TestRestoreDuringPrune(t *testing.T) {
	storage := backuptest.NewMem()
	repo := backup.Open(storage)
	d := database(t, "db", smallOptions(vfs.NewMem()))
	want := create(t, repo, d, nil)
	other := create(t, repo, d, &backup.CreateOptions{Database: "other"})
	r := backup.Open(once(t, storage, backuptest.OpOpen, "backups/"+other.ID, func() error {
		return storage.Delete(background, "backups/"+other.ID)
	}))
	got := result.Of(r.Restore(background, "", "x", &backup.RestoreOptions{FS: vfs.NewMem()}))(t)
	require.Equal(t, want, got)
}

// The working directory may change during a backup.
func TestARelativeCheckpointParent(t *testing.T) {
	dir := t.TempDir()
	d := database(t, dir+"/db", nil)
	require.NoError(t, os.MkdirAll(dir+"/elsewhere", 0o700))
	t.Chdir(dir)
	repo := backup.Open(&backuptest.Hooked{Storage: backuptest.NewMem(), Before: func(op backuptest.Op) error {
		if strings.HasPrefix(op.Name, "objects/") {
			return os.Chdir(dir + "/elsewhere")
		}
		return nil
	}})
	create(t, repo, d, &backup.CreateOptions{CheckpointParent: "here"})
	for _, parent := range []string{dir + "/here", dir + "/elsewhere"} {
		names := result.Of(os.ReadDir(parent))(t)
		require.Empty(t, names)
	}
}

// A backup that is cancelled does not remain announced, also if the storage heeds contexts.
func TestACancelledBackupIsNotAnnounced(t *testing.T) {
	storage := backuptest.NewMem()
	d := database(t, "db", smallOptions(vfs.NewMem()))
	for _, at := range []string{"objects/", "backups/", "running/"} {
		ctx, cancel := context.WithCancel(background)
		seen := 0
		repo := backup.Open(heeding{&backuptest.Hooked{Storage: storage, After: func(op backuptest.Op) error {
			if seen++; op.Kind != backuptest.OpOpen && strings.HasPrefix(op.Name, at) && seen > 2 {
				cancel()
			}
			return nil
		}}})
		_, err := repo.Create(ctx, d, nil)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, storage.Names("running/"))
	}
}

// heeding is a storage that does nothing if the context is done.
type heeding struct{ *backuptest.Hooked }

func (h heeding) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.Hooked.Delete(ctx, name)
}
