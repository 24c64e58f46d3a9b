package backup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// Badger's issue 521: a key that was deleted before the last backup of a chain came back in a restored database, since
// the chain's backups were merged. Here deletions, before and after they are compacted away, stay.
func TestADeletedKeyDoesNotComeBack(t *testing.T) {
	mem := vfs.NewMem()
	repo := backup.Open(backuptest.NewMem())
	d := open(t, "db", smallOptions(mem))
	fill(t, d, 0, 500, "first")
	first := create(t, repo, d, nil)
	require.NoError(t, d.Delete([]byte("key000100"), nil))
	require.NoError(t, d.DeleteRange(background, []byte("key000200"), []byte("key000300"), nil))
	deleted := create(t, repo, d, nil)
	require.NoError(t, d.Compact(background, nil, nil))
	compacted := create(t, repo, d, nil)
	put(t, d, "key000100", "written again")
	again := create(t, repo, d, nil)

	require.Len(t, restored(t, repo, first.ID), 500)
	for _, id := range []string{deleted.ID, compacted.ID} {
		got := restored(t, repo, id)
		require.Len(t, got, 399)
		require.NotContains(t, got, "key000100")
		require.NotContains(t, got, "key000250")
	}
	require.Equal(t, "written again", restored(t, repo, again.ID)["key000100"])

	// Nor does it after a restored database was written to, compacted, and backed up.
	restore(t, repo, deleted.ID, "other", mem)
	other := open(t, "other", smallOptions(mem))
	fill(t, other, 1000, 1500, "more")
	require.NoError(t, other.Compact(background, nil, nil))
	got := restored(t, repo, create(t, repo, other, nil).ID)
	require.Len(t, got, 899)
	require.NotContains(t, got, "key000100")
}

// tableFiles returns the sizes of the tables of a directory, by name.
func tableFiles(t *testing.T, d *db.DB) map[string]string {
	t.Helper()
	infos := result.Of(d.Tables())(t)
	files := map[string]string{}
	for _, i := range infos {
		files[i.Name] = fmt.Sprint(i.Level, i.Bytes, " ", string(i.Smallest), string(i.Largest), i.Entries, i.Deletions)
	}
	return files
}

// After an older backup was restored over a database, other values of the same sizes are written
// under the same keys. The tables then have the numbers, names, sizes, keys, sequence numbers, filters and
// indexes of tables that the repository has. They must not be taken for these.
func TestTablesThatDifferOnlyInValuesAreNotConfused(t *testing.T) {
	storage := backuptest.NewMem()
	repo := backup.Open(storage)
	mem := vfs.NewMem()
	o := smallOptions(mem)
	d := open(t, "db", o)
	fill(t, d, 0, 50, "base")
	base := create(t, repo, d, &backup.CreateOptions{Flush: true})
	require.NoError(t, d.Close())

	// history continues from the first backup.
	history := func(value string) (files map[string]string, want map[string]string, info backup.Info) {
		require.NoError(t, db.Destroy("db", o))
		restore(t, repo, base.ID, "db", mem)
		d := open(t, "db", o)
		fill(t, d, 0, 50, value)
		require.NoError(t, d.Flush())
		files, want = tableFiles(t, d), contents(t, d)
		info = create(t, repo, d, nil)
		require.NoError(t, d.Close())
		return files, want, info
	}
	filesA, wantA, a := history("AAAA")
	filesB, wantB, b := history("BBBB")
	filesC, wantC, c := history("AAAA")
	require.Equal(t, filesA, filesB, "the test needs tables that look the same")
	require.NotEqual(t, wantA, wantB)
	require.Equal(t, filesA, filesC)
	require.Equal(t, a.Sequence, b.Sequence)
	require.Equal(t, wantA, restored(t, repo, a.ID))
	require.Equal(t, wantB, restored(t, repo, b.ID))
	require.Equal(t, wantC, restored(t, repo, c.ID))
	require.Less(t, c.BytesStored, a.BytesStored/2, "its tables are stored already")

	// Reading everything finds the same objects.
	d = open(t, "db", o)
	all := create(t, repo, d, &backup.CreateOptions{ReadAll: true})
	require.Less(t, all.BytesStored, a.BytesStored/2)
	require.Equal(t, wantC, restored(t, repo, all.ID))
}

// Several databases share a repository, and the newest backup is that of the named one.
func TestDatabasesShareARepository(t *testing.T) {
	storage := backuptest.NewMem()
	repo := backup.Open(storage)
	mem := vfs.NewMem()
	a, b := open(t, "a", smallOptions(mem)), open(t, "b", smallOptions(mem))
	put(t, a, "who", "a")
	put(t, b, "who", "b")
	infoA := create(t, repo, a, &backup.CreateOptions{Database: "orders"})
	infoB := create(t, repo, b, &backup.CreateOptions{Database: "a name with \"quotes\"\n"})
	require.Equal(t, "orders", infoA.Database)
	for name, want := range map[string]backup.Info{infoA.Database: infoA, infoB.Database: infoB} {
		dir := "restored " + want.ID
		got := result.Of(repo.Restore(background, "", dir, &backup.RestoreOptions{FS: mem, Database: name}))(t)
		require.Equal(t, want, got)
	}
	_, err := repo.Restore(background, "", "none", &backup.RestoreOptions{FS: mem})
	require.ErrorContains(t, err, `backups of several databases, "a name with \"quotes\"\n", "orders"; name one of them`)
	_, err = repo.RestoreAt(background, "", backup.Point{Sequence: 1}, "none", &backup.RestoreOptions{FS: mem})
	require.ErrorContains(t, err, `"orders"; name one of them`)
	_, err = repo.Restore(background, "", "none", &backup.RestoreOptions{FS: mem, Database: "order"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, `no backup of a database named "order"; it has backups of "a name with \"quotes\"\n", "orders"`)
	all := list(t, repo)
	require.Equal(t, []backup.Info{infoA, infoB}, all)

	// Each of them keeps its newest backup.
	report := keepLast(t, repo, 1)
	require.Equal(t, all, report.Kept)
}

// Without a name and an ID, a restore uses the only database, whatever its name is.
func TestTheOnlyDatabaseIsRestoredWithoutItsName(t *testing.T) {
	mem := vfs.NewMem()
	l := newTimeline(t, mem, backuptest.NewMem())
	l.put("key", "value")
	o := &backup.ArchiveOptions{CreateOptions: backup.CreateOptions{Database: "orders"}}
	info := result.Of(l.repo.Archive(background, l.d, o))(t)
	l.put("key", "newer")
	result.Of(l.repo.Archive(background, l.d, o))(t)
	require.Equal(t, map[string]string{"key": "value"}, restored(t, l.repo, ""))
	require.Equal(t, map[string]string{"key": "newer"}, l.at(backup.Point{Sequence: info.Last + 1}))

	_, err := backup.Open(backuptest.NewMem()).Restore(background, "", "none", &backup.RestoreOptions{FS: mem})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// While the storage fails, another database may be there.
func TestNoDatabaseIsTheOnlyOneWhileTheStorageFails(t *testing.T) {
	mem, storage := vfs.NewMem(), backuptest.NewMem()
	l := newTimeline(t, mem, storage)
	l.put("key", "value")
	older := create(t, l.repo, l.d, &backup.CreateOptions{Database: "customers"})
	last, err := l.repo.Archive(background, l.d, &backup.ArchiveOptions{CreateOptions: backup.CreateOptions{Database: "orders"}})
	require.NoError(t, err)
	unreachable := errors.New("unreachable")
	fails := func() error { return unreachable }
	for _, restore := range []func(*backup.Repository, *backup.RestoreOptions) error{
		func(r *backup.Repository, o *backup.RestoreOptions) error {
			return second(r.Restore(background, "", "restored", o))
		},
		func(r *backup.Repository, o *backup.RestoreOptions) error {
			return second(r.RestoreAt(background, "", backup.Point{Sequence: last.Last}, "restored", o))
		},
	} {
		repo := backup.Open(beforeNth(storage, backuptest.OpOpen, "backups/"+older.ID, 1, fails))
		require.ErrorIs(t, restore(repo, &backup.RestoreOptions{FS: mem}), unreachable)
	}
}

// A store under two names: a restore by one of them would find only some of its backups. The second name is refused in
// either order, before anything is stored, until the stream ends.
func TestASecondNameForAnArchivedDatabaseIsRefused(t *testing.T) {
	for _, first := range []string{"", "orders"} {
		storage := backuptest.NewMem()
		l := newTimeline(t, vfs.NewMem(), storage)
		l.put("key", "value")
		named := backup.CreateOptions{Database: first}
		other := backup.CreateOptions{Database: map[string]string{"": "orders", "orders": ""}[first]}
		result.Of(l.repo.Archive(background, l.d, &backup.ArchiveOptions{CreateOptions: named}))(t)
		l.put("key", "newer")
		stored := storage.Names("")
		_, created := l.repo.Create(background, l.d, &other)
		_, archived := l.repo.Archive(background, l.d, &backup.ArchiveOptions{CreateOptions: other})
		for _, err := range []error{created, archived, l.repo.KeepArchiving(background, l.d, &backup.ArchiveOptions{CreateOptions: other})} {
			require.ErrorContains(t, err, fmt.Sprintf("archived here with the name %q", first))
			require.ErrorContains(t, err, fmt.Sprintf("and Database is %q", other.Database))
		}
		require.Equal(t, stored, storage.Names(""))
		create(t, l.repo, l.d, &named)

		require.NoError(t, l.repo.StopArchiving(background, l.d))
		info := create(t, l.repo, l.d, &other)
		require.Equal(t, l.model, restored(t, l.repo, info.ID))
	}
}

// A copy that has changed since is another database, and may have another name. While the stream does not show that, it
// needs StopArchiving.
func TestAChangedCopyMayHaveAnotherName(t *testing.T) {
	mem := vfs.NewMem()
	l := newArchivedTimeline(t, mem, backuptest.NewMem())
	c, stopped := l.copyOf(mem), l.copyOf(mem)
	stopped.put("key", "stopped")
	_, err := stopped.repo.Create(background, stopped.d, &backup.CreateOptions{Database: "stopped"})
	require.ErrorContains(t, err, "if it is a copy, call StopArchiving first")
	require.NoError(t, stopped.repo.StopArchiving(background, stopped.d))
	create(t, stopped.repo, stopped.d, &backup.CreateOptions{Database: "stopped"})
	l.put("key", "original")
	require.Nil(t, l.archive().Backup)
	c.put("key", "copy")
	create(t, c.repo, c.d, &backup.CreateOptions{Database: "copy"})
	info, err := c.repo.Archive(background, c.d, &backup.ArchiveOptions{CreateOptions: backup.CreateOptions{Database: "copy"}})
	require.NoError(t, err)
	require.NotNil(t, info.Backup)
	require.Nil(t, l.archive().Backup)
}
