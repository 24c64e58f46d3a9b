package backup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// Every flipped bit of a stream's object is found, since Archive could not continue the stream.
func TestDamagedStreamsAreFound(t *testing.T) {
	storage := backuptest.NewMem()
	l := newTimeline(t, vfs.NewMem(), storage)
	l.put("key", "value")
	info := l.archive()
	name := "streams/" + info.Stream
	content := storage.Objects()[name]
	for at := range content {
		flipped := append([]byte{}, content...)
		flipped[at] ^= 1 << (at % 8)
		storage.Replace(name, flipped)
		fault := oneFault(t, l.repo, at)
		require.Equal(t, name, fault.Object)
	}
	require.Error(t, result.Err(l.repo.Archive(background, l.d, nil)))
	fault := oneFault(t, l.repo)
	require.Contains(t, fault.String(), "delete the object, and Archive begins another stream")
	require.NotContains(t, fault.String(), "needed by")
	storage.Replace(name, nil)
	require.NotNil(t, l.archive().Backup)
	verifyClean(t, l.repo)
}

// Segments that are missing before a backup are a fault, also if no segment follows.
func TestMissingSegmentsBeforeABackupAreFound(t *testing.T) {
	storage := backuptest.NewMem()
	l := newArchivedTimeline(t, vfs.NewMem(), storage)
	for _, value := range []string{"second", "third"} {
		l.put("key", value)
		l.archive()
	}
	newest := l.create()
	verifyClean(t, l.repo)
	names := storage.Names("segments/")
	require.Len(t, names, 2)
	for i := range names {
		storage.Replace(names[len(names)-1-i], nil)
		fault := oneFault(t, l.repo)
		require.Contains(t, fault.String(), newest.ID)
		require.Contains(t, fault.String(), "are missing")
	}
	require.ErrorContains(t, result.Err(l.tryAt("", backup.Point{Sequence: 2})), "what can be is stream")
}
