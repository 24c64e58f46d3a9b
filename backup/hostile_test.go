package backup_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// damageTables flips a bit in a data block of each table.
func damageTables(t *testing.T, mem *vfs.Mem, dir string) (damaged int) {
	t.Helper()
	for _, name := range files(t, mem, dir) {
		if !strings.HasSuffix(name, ".ldb") {
			continue
		}
		content := fixture.ReadFile(t, mem, name)
		content[100] ^= 1
		fixture.WriteFile(t, mem, name, content)
		damaged++
	}
	return damaged
}

// A backup of a database whose tables are damaged made the undamaged tables, with the same hash in their
// properties, known as stored: no later backup stored them.
func TestADamagedTableIsNotTakenForAnUndamagedOne(t *testing.T) {
	mem := vfs.NewMem()
	d := open(t, "db", smallOptions(mem))
	fill(t, d, 0, 200, "value")
	require.NoError(t, d.Compact(background, nil, nil))
	want := contents(t, d)
	require.NoError(t, d.Close())
	bad := mem.Kill()
	require.Positive(t, damageTables(t, bad, "db"))

	repo := backup.Open(backuptest.NewMem())
	for _, fsys := range []*vfs.Mem{bad, bad, mem, mem} {
		d := open(t, "db", smallOptions(fsys))
		create(t, repo, d, nil)
		require.NoError(t, d.Close())
	}
	require.Equal(t, want, restored(t, repo, ""))
	all := list(t, repo)
	require.Less(t, all[3].BytesStored, all[2].BytesStored/10, "they are recognized now")
}

// What Verify advises against a damaged object helps: once it is deleted, the next backup stores it again.
func TestADeletedObjectIsStoredAgain(t *testing.T) {
	storage, repo, d := newRepo(t)
	fill(t, d, 0, 200, "value")
	require.NoError(t, d.Compact(background, nil, nil))
	first := create(t, repo, d, nil)
	for name, content := range storage.Objects() {
		if strings.HasPrefix(name, "objects/") && len(content) > 0 {
			content = append([]byte{}, content...)
			content[len(content)/2] ^= 1
			storage.Replace(name, content)
		}
	}
	report := result.Of(repo.Verify(background))(t)
	require.NotEmpty(t, report.Faults)
	for _, f := range report.Faults {
		require.Equal(t, []string{first.ID}, f.Backups)
		require.NoError(t, storage.Delete(background, f.Object))
	}
	require.Equal(t, contents(t, d), restored(t, repo, create(t, repo, d, nil).ID))
}

// One damaged description hid all other backups from List.
func TestListReturnsTheBackupsThatItCanRead(t *testing.T) {
	p := newPlace(t, false)
	repo := backup.Open(p.storage)
	p.storage.Replace("backups/"+p.ids[0], []byte("sievedb backup 1\n"))
	all, err := repo.List(background)
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, p.ids[0])
	require.Len(t, all, 1)
	require.Equal(t, p.ids[1], all[0].ID)
}

// Lists of condemned objects and of backups that were forged name nothing but objects and IDs.
func TestForgedListsAreRefused(t *testing.T) {
	const id = "20260301T120000.000000000Z-0123456789abcdef"
	for _, c := range []struct{ name, text, want string }{
		{"condemned/", "", `its last line is not "end"`},
		{"condemned/", "backups/" + id + "\nend\n", "is not the name of an object"},
		{"condemned/", "objects/../backups/" + id + "\nend\n", "is not the name of an object"},
		{"condemned/", strings.Repeat("a\n", 1<<20) + "end\n", "is not the name of an object"},
		{"condemned/", strings.Repeat("a", 1<<20) + "\nend\n", "it has a line of more than 65536 bytes"},
		{"condemned/", strings.Repeat("a", 1<<10) + "\nend\n", "is not the name of an object"},
		{"condemned/", "objects/end\n", "is not the name of an object"},
		{"waits/", "x\nend\n", "is not the name of an ID"},
	} {
		p := newPlace(t, false)
		repo := backup.Open(p.storage)
		p.storage.Replace("condemned/"+id, []byte("end\n"))
		p.storage.Replace(c.name+id, []byte(c.text))
		_, err := repo.Prune(background, backup.Policy{KeepLast: 1})
		require.ErrorIs(t, err, db.ErrCorruption, c.text[:min(len(c.text), 99)])
		require.ErrorContains(t, err, c.want)
		require.Less(t, len(err.Error()), 2000)
		verifyClean(t, repo)
	}

	// A forged list that names what backups need has no effect.
	p := newPlace(t, false)
	repo := backup.Open(p.storage)
	names := strings.Join(p.storage.Names("objects/"), "\n")
	p.storage.Replace("condemned/"+id, []byte(names+"\n"+names+"\nend\n"))
	keepLast(t, repo, 2)
	require.Equal(t, 2, verifyClean(t, repo).Backups)
}

// A description with a right checksum that no backup can have.
func TestForgedBackupsAreFaults(t *testing.T) {
	for _, c := range []struct{ old, changed, want string }{
		{"file CURRENT", "file LOG", "it has no file CURRENT"},
		{"2097152", fmt.Sprint(int64(math.MaxInt64/2 - 1)), "at most 4611686018427387903 are supported"},
	} {
		body, _, _ := strings.Cut(strings.ReplaceAll(example(t), c.old, c.changed), "sum ")
		_, err := backup.EncodeAgain([]byte(withSum(body)))
		require.ErrorIs(t, err, db.ErrCorruption)
		require.ErrorContains(t, err, c.want)
	}
	_, err := backup.Open(backuptest.NewMem()).Prune(background, backup.Policy{
		KeepLast: math.MaxInt, KeepDaily: math.MaxInt, KeepWeekly: 2,
	})
	require.ErrorIs(t, err, fs.ErrNotExist, "the sum of the numbers is 0")
}

// A description, or a list, that consists of a hole of a gigabyte is not read into memory.
func TestHolesAreNotReadIntoMemory(t *testing.T) {
	dir := t.TempDir()
	repo := backup.Open(newDir(t, nil, dir))
	create(t, repo, database(t, filepath.Join(t.TempDir(), "db"), nil), nil)
	const id = "20260301T120000.000000000Z-0123456789abcdef"
	for _, head := range []string{"", "sievedb backup 1\nid " + id + "\ndatabase \""} {
		for _, name := range []string{"backups", "condemned"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
			hole := filepath.Join(dir, name, id)
			require.NoError(t, os.WriteFile(hole, []byte(head), 0o600))
			require.NoError(t, os.Truncate(hole, 1<<30))
			before := damage.Allocated()
			_, err := repo.Prune(background, backup.Policy{KeepLast: 1})
			require.ErrorIs(t, err, db.ErrCorruption)
			require.ErrorContains(t, err, "it has a line of more than 65536 bytes")
			require.Less(t, damage.Allocated()-before, uint64(8<<20))
			require.NoError(t, os.Remove(hole))
		}
	}
	d := database(t, filepath.Join(t.TempDir(), "db"), nil)
	result.Of(repo.Create(background, d, &backup.CreateOptions{Database: strings.Repeat("\x00", 4<<10)}))(t)
	list(t, repo)
	_, err := repo.Create(background, d, &backup.CreateOptions{Database: strings.Repeat("x", 4<<10+1)})
	require.ErrorContains(t, err, "has 4097 bytes; at most 4096 are supported")
}

// link makes a symbolic link, and reports whether the system lets it.
func link(t *testing.T, to, name string) bool {
	t.Helper()
	err := os.Symlink(to, name)
	if err != nil {
		t.Log("no symbolic links here: ", err)
	}
	return err == nil
}

// Symbolic links in a repository, or with the names of what calls leave, led to files elsewhere: two calls
// removed the database that such a link named.
func TestSymbolicLinksLeadNowhere(t *testing.T) {
	dir := t.TempDir()
	d := database(t, filepath.Join(dir, "db"), nil)
	for _, name := range []string{"objects", "tmp", "running", "backups"} {
		out, repo := filepath.Join(dir, "out "+name), filepath.Join(dir, "repo "+name)
		require.NoError(t, os.MkdirAll(out, 0o700))
		require.NoError(t, os.MkdirAll(repo, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(repo, "FORMAT"), []byte("sievedb backup repository 1\n"), 0o600))
		if !link(t, out, filepath.Join(repo, name)) {
			return
		}
		_, err := backup.Open(newDir(t, nil, repo)).Create(background, d, nil)
		require.ErrorContains(t, err, "it is a symbolic link")
		require.Empty(t, files(t, vfs.OS, out))
	}

	// The repository itself may be one.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "real"), 0o700))
	require.True(t, link(t, filepath.Join(dir, "real"), filepath.Join(dir, "repo")))
	repo := backup.Open(newDir(t, nil, filepath.Join(dir, "repo")))
	create(t, repo, d, nil)
	for _, inside := range []string{"real/x", "repo/x"} {
		_, err := repo.Restore(background, "", filepath.Join(dir, inside), nil)
		require.ErrorContains(t, err, "choose directories apart")
	}

	other := database(t, filepath.Join(dir, "other"), nil)
	require.NoError(t, other.Close())
	before := files(t, vfs.OS, filepath.Join(dir, "other"))
	require.True(t, link(t, other.Dir(), filepath.Join(dir, "dest.restore")))
	_, err := repo.Restore(background, "", filepath.Join(dir, "dest"), nil)
	require.ErrorContains(t, err, "it is a symbolic link")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db", "backup"), 0o700))
	leftover := filepath.Join(dir, "db", "backup", "20250101T000000.000000000Z-0123456789abcdef")
	require.True(t, link(t, other.Dir(), leftover))
	require.NoError(t, os.WriteFile(leftover+".lock", nil, 0o600))
	require.ErrorContains(t, second(repo.Create(background, d, nil)), "it is a symbolic link")
	require.Equal(t, before, files(t, vfs.OS, filepath.Join(dir, "other")))
	require.NoError(t, os.Remove(leftover))

	// What is not a file is not used as an object.
	objects := result.Of(filepath.Glob(filepath.Join(dir, "repo/objects/*/*")))(t)
	for _, name := range objects {
		require.NoError(t, os.Rename(name, filepath.Join(dir, filepath.Base(name))))
		require.True(t, link(t, filepath.Join(dir, filepath.Base(name)), name))
	}
	require.NotEmpty(t, restored(t, repo, create(t, repo, d, nil).ID))
}
