package backup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// The second backup after 1 % of change reads and writes at most 3 % of the bytes, in the database's
// directory and in the repository together. A backup without changes reads and writes next to nothing.
func TestASecondBackupReadsAndWritesLittle(t *testing.T) {
	counting := wrap.NewCounting(vfs.NewMem())
	storage := &backuptest.Hooked{Storage: backuptest.NewMem()}
	repo := backup.Open(storage)
	d := open(t, "db", &db.Options{
		FS: counting, Memtables: db.MemtableOptions{Size: 256 << 10},
		Tables:     db.TableOptions{Size: 512 << 10, Compression: db.NoCompression},
		Compaction: db.CompactionOptions{MaxLevelBase: 4 << 20},
	})
	const keys = 10_000
	fill := func(from, to int, value string) {
		for i := from; i < to; i++ {
			put(t, d, fmt.Sprintf("key%06d", i), fmt.Sprintf("%s%0800d", value, i))
		}
	}
	fill(0, keys, "value")
	require.NoError(t, d.Compact(background, nil, nil))
	// measure returns the bytes read and written, in 1/1000 of the backup's bytes.
	measure := func() (read, written, total int64) {
		resume := result.Of(d.PauseCompactions(background))(t)
		defer resume()
		before := counting.Snapshot()
		readBefore, writtenBefore := storage.Bytes()
		info := create(t, repo, d, nil)
		moved := counting.Snapshot().Sub(before).Total
		read, written = storage.Bytes()
		read += int64(moved.ReadBytes) - readBefore
		written += int64(moved.WriteBytes) - writtenBefore
		t.Logf("%d bytes: read %d, wrote %d", info.Bytes, read, written)
		return read * 1000 / info.Bytes, written * 1000 / info.Bytes, info.Bytes
	}
	_, written, total := measure()
	require.Greater(t, total, int64(8_000_000))
	require.GreaterOrEqual(t, written, int64(1000))

	fill(keys/2, keys/2+keys/100, "other")
	read, written, _ := measure()
	require.LessOrEqual(t, read, int64(30))
	require.LessOrEqual(t, written, int64(30))

	read, written, _ = measure()
	require.LessOrEqual(t, read, int64(30))
	require.LessOrEqual(t, written, int64(30))
	verifyClean(t, repo)
}

// Other machines may have stored a table in the meantime: it is not stored twice.
func TestAnObjectIsStoredOnce(t *testing.T) {
	storage, repo, d := newRepo(t)
	fill(t, d, 0, 1000, "value")
	first := create(t, repo, d, &backup.CreateOptions{Flush: true})
	require.Equal(t, first.Bytes, first.BytesStored)
	for range 3 { // all other names are new to the repository
		create(t, repo, d, &backup.CreateOptions{Database: "other", ReadAll: true})
	}
	sums := map[string]bool{}
	for _, name := range storage.Names("objects/") {
		sum, _, _ := strings.Cut(strings.TrimPrefix(name, "objects/"), "-")
		require.False(t, sums[sum], "stored twice")
		sums[sum] = true
	}
}

// A database on the operating system's files, with its logs in another directory.
func TestBackupsOfRealFiles(t *testing.T) {
	dir := t.TempDir()
	o := &db.Options{LogDir: dir + "/logs", Memtables: db.MemtableOptions{Size: 64 << 10}}
	d := open(t, dir+"/db", o)
	fill(t, d, 0, 2000, "value")
	require.NoError(t, d.Delete([]byte("key000007"), nil))
	want := contents(t, d)
	storage := newDir(t, nil, dir+"/some/repo")
	repo := backup.Open(storage)
	info := create(t, repo, d, &backup.CreateOptions{CheckpointParent: dir + "/parent"})
	require.Equal(t, "leveldb.BytewiseComparator", info.Comparer)
	require.NotEmpty(t, info.Engine)
	require.WithinDuration(t, time.Now(), info.Time, time.Hour)
	create(t, repo, d, nil)
	got := result.Of(repo.Restore(background, "", dir+"/restored", nil))(t)
	require.Greater(t, got.ID, info.ID)
	r := open(t, dir+"/restored", nil)
	require.Equal(t, want, contents(t, r))
	verifyClean(t, repo)
	_, err := repo.Restore(background, "", dir+"/restored", nil)
	require.ErrorContains(t, err, "choose a directory that does not exist or is empty")
	left := result.Of(vfs.NewOS(0o644).List(dir))(t)
	require.Equal(t, []string{"db", "logs", "parent", "restored", "some"}, left)
}
