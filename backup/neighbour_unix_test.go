//go:build unix

package backup_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// repositoryOnDisk returns a repository with one backup of a small database.
func repositoryOnDisk(t *testing.T) *backup.Repository {
	repo := backup.Open(newDir(t, nil, filepath.Join(t.TempDir(), "repo")))
	create(t, repo, database(t, filepath.Join(t.TempDir(), "db"), nil), nil)
	return repo
}

// plant makes a directory as another user may have prepared it, with a file that says it was left by a restore or a
// checkpoint. Only root can give it to another user; as others the test makes it a directory that all can write.
func plant(t *testing.T, dir, marker string) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	if marker != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "000000.dbtmp"), []byte(marker), 0o644))
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, 12345))
		return
	}
	require.NoError(t, os.Chmod(dir, 0o777))
}

// names returns what a directory has.
func names(t *testing.T, dir string) []string {
	list := result.Of(vfs.OS.List(dir))(t)
	return list
}

func TestRestoreRefusesDirectoriesThatOthersCanChange(t *testing.T) {
	repo := repositoryOnDisk(t)
	for _, c := range []struct {
		claim, planted, marker string
		mine                   bool // dest is an empty directory of ours
	}{
		{"an empty temporary directory", "out.restore", "", false},
		{"one with the marker of an interrupted restore", "out.restore", "out", false},
		{"one in the way of an empty destination", "out.restore", "out", true},
		{"an empty destination", "out", "", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			parent := t.TempDir()
			require.NoError(t, os.Chmod(parent, 0o777|fs.ModeSticky))
			dest, planted := filepath.Join(parent, "out"), filepath.Join(parent, c.planted)
			if c.mine {
				require.NoError(t, os.Mkdir(dest, 0o700))
			}
			plant(t, planted, c.marker)
			before := names(t, planted)

			_, err := repo.Restore(background, "", dest, nil)
			require.ErrorIs(t, err, vfs.ErrNotOwn)
			require.ErrorContains(t, err, planted)
			require.ErrorContains(t, err, "remove it, or choose another name")
			require.Equal(t, before, names(t, planted), "it is left as it was")
			require.NoFileExists(t, filepath.Join(dest, "CURRENT"))

			require.NoError(t, os.RemoveAll(planted))
			result.Of(repo.Restore(background, "", dest, nil))(t)
			info := result.Of(os.Stat(dest))(t)
			require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
		})
	}
}

// A umask of 002 and a group of one's own make directories that a group can write.
func TestRestoreAcceptsTheDirectoriesOfAUserWithAGroupOfItsOwn(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.Mkdir(dest, 0o700))
	require.NoError(t, os.Chmod(dest, 0o775))
	info := result.Of(os.Stat(dest))(t)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != st.Gid {
		t.Skip("this user has no group of its own")
	}
	result.Of(repositoryOnDisk(t).Restore(background, "", dest, nil))(t)
}

func TestCheckpointsRefuseATemporaryDirectoryThatOthersCanChange(t *testing.T) {
	parent := t.TempDir()
	d := database(t, filepath.Join(parent, "db"), nil)
	for _, marker := range []string{"", "copy"} {
		planted := filepath.Join(parent, "copy.checkpoint")
		plant(t, planted, marker)
		before := names(t, planted)
		_, err := d.Checkpoint(background, filepath.Join(parent, "copy"), nil)
		require.ErrorIs(t, err, vfs.ErrNotOwn)
		require.ErrorContains(t, err, "remove it")
		require.Equal(t, before, names(t, planted), "it is left as it was")
		require.NoDirExists(t, filepath.Join(parent, "copy"))
		require.NoError(t, os.RemoveAll(planted))
	}
	result.Of(d.Checkpoint(background, filepath.Join(parent, "copy"), nil))(t)
}

// In a CheckpointParent such as /tmp another user may make what looks like the rest of an interrupted backup, and
// exchange it for a link while it is being removed. So it stays, and does not keep backups from being made.
func TestABackupLeavesTheRestsOfOtherUsersAlone(t *testing.T) {
	parent := t.TempDir()
	repo := repositoryOnDisk(t)
	d := database(t, filepath.Join(t.TempDir(), "db"), nil)
	const id = "20260102T030405.000000000Z-0123456789abcdef"
	for _, suffix := range []string{"", ".checkpoint"} {
		left := filepath.Join(parent, "db.backup-"+id+suffix)
		require.NoError(t, os.WriteFile(filepath.Join(parent, "db.backup-"+id+".lock"), nil, 0o600))
		require.NoError(t, os.Mkdir(left, 0o700))
		precious := filepath.Join(left, "000001.ldb")
		require.NoError(t, os.WriteFile(precious, nil, 0o600))
		o := &backup.CreateOptions{CheckpointParent: parent}
		require.NoError(t, os.Chmod(left, 0o777))
		create(t, repo, d, o)
		require.FileExists(t, precious)

		require.NoError(t, os.Chmod(left, 0o700))
		create(t, repo, d, o)
		require.NoFileExists(t, precious, "it is ours now")
	}
}
