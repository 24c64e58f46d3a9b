package backup_test

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// The database's directory is the root of a volume: nothing can be written beside it, and links do not leave it.
func TestABackupWritesOnlyIntoTheDatabasesDirectory(t *testing.T) {
	mem, mounted := vfs.NewMem(), false
	fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		name := filepath.ToSlash(cmp.Or(op.NewName, op.Name)) + "/"
		reads := op.Kind == wrap.OpOpen || op.Kind == wrap.OpRead || op.Kind == wrap.OpList || op.Kind == wrap.OpStat || op.Kind == wrap.OpSize
		if mounted && !reads && !strings.HasPrefix(name, "vol/") {
			return &wrap.Fault{Err: syscall.EROFS}
		}
		return nil
	})
	d := open(t, "vol", smallOptions(fsys))
	fill(t, d, 0, 100, "value")
	mounted = true
	repo := backup.Open(backuptest.NewMem())
	first := create(t, repo, d, nil)
	require.Equal(t, first.Files, create(t, repo, d, nil).Files)
	require.Equal(t, contents(t, d), restored(t, repo, ""))
	require.ErrorIs(t, second(repo.Create(background, d, &backup.CreateOptions{CheckpointParent: "parent"})), syscall.EROFS)
	names := result.Of(mem.List("vol"))(t)
	require.NotContains(t, names, "backup")
}

// A parent in the database's directory was made before it was refused, and stayed. The error of a file spoke of what an
// interrupted backup left.
func TestAWrongParentOfCheckpointsIsRefusedAndNotMade(t *testing.T) {
	mem := vfs.NewMem()
	o := smallOptions(mem)
	o.LogDir = "logs"
	d := open(t, "db", o)
	fixture.WriteFile(t, mem, "file", nil)
	for parent, want := range map[string]string{
		"db": "belongs to the database", "db/sub": "belongs to the database", "logs/sub/sub": "belongs to the database",
		"file": "which is a file; choose a directory",
	} {
		_, err := backup.Open(backuptest.NewMem()).Create(background, d, &backup.CreateOptions{CheckpointParent: parent})
		require.ErrorContains(t, err, "CreateOptions.CheckpointParent is "+parent, parent)
		require.ErrorContains(t, err, want, parent)
	}
	for _, dir := range []string{"db", "logs"} {
		names := result.Of(mem.List(dir))(t)
		require.NotContains(t, names, "sub")
	}
}

// interrupted returns what a process leaves that is killed in the middle of a backup.
func interrupted(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	var killed *vfs.Mem
	d := open(t, "db", smallOptions(mem))
	fill(t, d, 0, 100, "value")
	repo := backup.Open(&backuptest.Hooked{Storage: backuptest.NewMem(), Before: func(op backuptest.Op) error {
		if strings.HasPrefix(op.Name, "objects/") && op.Name != "objects/" && killed == nil {
			killed = mem.Kill()
		}
		return nil
	}})
	create(t, repo, d, nil)
	names := result.Of(killed.List("db/backup"))(t)
	require.Len(t, names, 2)
	return killed
}

// The checkpoint that a killed backup leaves in the database's directory disturbs no reader, and the next backup, the
// next opening for writing, and Destroy remove it.
func TestWhatAKilledBackupLeavesIsIgnoredAndRemoved(t *testing.T) {
	mem := interrupted(t)
	left := func() bool {
		_, err := mem.Stat("db/backup")
		return err == nil
	}
	o := smallOptions(mem)
	o.ReadOnly = true
	for i, open := range []func(string, *db.Options) (*db.DB, error){db.Open, db.OpenFollower} {
		reader := result.Of(open("db", o))(t)
		require.Len(t, contents(t, reader), 100)
		checked := result.Of(reader.Check(background))(t)
		require.Empty(t, checked.Faults)
		usage := result.Of(reader.DiskUsage())(t)
		require.Less(t, usage.Total, uint64(100<<10))
		dest := "copy" + strconv.Itoa(i)
		require.NoError(t, second(reader.Checkpoint(background, dest, nil)))
		names := result.Of(mem.List(dest))(t)
		require.NotContains(t, names, "backup")
		require.NoError(t, reader.Close())
	}
	require.NoError(t, db.Repair("db", smallOptions(mem)))
	require.True(t, left())
	d := open(t, "db", smallOptions(mem))
	require.Len(t, contents(t, d), 100)
	require.Len(t, files(t, mem, "db/backup"), 1, "the lock shows Prune that the backup has ended")
	create(t, backup.Open(backuptest.NewMem()), d, nil)
	require.False(t, left())

	mem = interrupted(t) // a reader makes the next backup
	o = smallOptions(mem)
	o.ReadOnly = true
	reader := open(t, "db", o)
	create(t, backup.Open(backuptest.NewMem()), reader, nil)
	require.False(t, left())

	mem = interrupted(t)
	require.NoError(t, db.Destroy("db", smallOptions(mem)))
	require.ErrorIs(t, result.Err(mem.Stat("db")), fs.ErrNotExist)

	mem = interrupted(t) // another process makes a backup: it is left alone
	names := result.Of(mem.List("db/backup"))(t)
	lock := result.Of(mem.Lock("db/backup/"+names[1], false))(t)
	d = open(t, "db", smallOptions(mem))
	create(t, backup.Open(backuptest.NewMem()), d, nil)
	require.True(t, left())
	require.NoError(t, lock.Close())
	create(t, backup.Open(backuptest.NewMem()), d, nil)
	require.False(t, left())
}

// The bug: a backup failed if another one of the same database ended while it looked for what interrupted ones had
// left.
func TestABackupBeginsWhileAnotherOneEnds(t *testing.T) {
	for _, at := range []wrap.OpKind{wrap.OpList, wrap.OpLock} {
		mem, ended := interrupted(t), false
		end := func() {
			ended = true
			names := result.Of(mem.List("db/backup"))(t)
			for _, name := range names {
				inside, _ := mem.List("db/backup/" + name)
				for _, file := range inside {
					require.NoError(t, mem.Remove("db/backup/"+name+"/"+file))
				}
				require.NoError(t, mem.Remove("db/backup/"+name))
			}
			require.NoError(t, mem.Remove("db/backup"))
		}
		o := smallOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if op.Kind == at && strings.HasPrefix(op.Name, filepath.Join("db", "backup")) && !ended {
				end()
			}
			return nil
		}))
		o.ReadOnly = true // an opening for writing would remove the checkpoint
		d := open(t, "db", o)
		create(t, backup.Open(backuptest.NewMem()), d, nil)
		require.True(t, ended)
	}
}
