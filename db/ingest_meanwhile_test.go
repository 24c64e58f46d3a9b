package db_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestSnapshotsIteratorsAndTransactionsOfBeforeDoNotSeeAnIngest(t *testing.T) {
	for _, open := range []string{"snapshot", "iterator", "transaction"} {
		t.Run(open, func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			d := openTest(t, o)
			fill(t, d, 0, 10)
			s, tx := &db.Snapshot{}, &db.Transaction{}
			it, err := d.NewIterator(nil)
			require.NoError(t, err)
			defer it.Close()
			switch open {
			case "snapshot":
				s = d.NewSnapshot()
			case "transaction":
				tx = d.NewTransaction(nil)
				requireAbsent(t, tx, testKey(105))
			}
			info := mustIngest(t, d, makeTable(t, o.FS, "in/a", keysFrom(100, 110, 0, "a")))
			require.Equal(t, open == "iterator", info.Linked == 1, "an iterator pins what it reads")
			requireValue(t, d, testKey(105), []byte("a"))
			require.False(t, it.SeekGE(testKey(100)))
			switch open {
			case "snapshot":
				requireAbsent(t, s, testKey(105))
				require.NoError(t, s.Close())
			case "transaction":
				requireAbsent(t, tx, testKey(106))
				require.NoError(t, tx.Put([]byte("x"), nil))
				require.Equal(t, db.ErrConflict, tx.Commit())
			}
			require.NoError(t, d.Update(func(tx *db.Transaction) error {
				value, err := tx.Get(testKey(105))
				if err == nil {
					err = tx.Put([]byte("x"), value)
				}
				return err
			}))
		})
	}
}

// Snapshots and transactions that begin while tables are installed read the state of their beginning, and
// such a transaction conflicts: its read found nothing, and the sequence numbers of the tables are old.
func TestTransactionsThatBeginDuringAnIngestConflict(t *testing.T) {
	var d *db.DB
	var s *db.Snapshot
	var tx *db.Transaction
	h := hook{at: of(wrap.OpWrite, "MANIFEST")}
	o := testOptions(h.over(vfs.NewMem()))
	d = openTest(t, o)
	fill(t, d, 0, 10)
	require.NoError(t, d.Flush())
	path := makeTable(t, o.FS, "in/a", keysFrom(100, 110, 0, "a"))
	h.arm(func() {
		s, tx = d.NewSnapshot(), d.NewTransaction(nil)
		requireAbsent(t, tx, testKey(105))
	})
	require.Equal(t, 1, mustIngest(t, d, path).Linked)
	require.True(t, h.called())
	requireValue(t, d, testKey(105), []byte("a"))
	requireAbsent(t, s, testKey(105))
	requireAbsent(t, tx, testKey(106))
	require.NoError(t, tx.Put([]byte("x"), nil))
	require.Equal(t, db.ErrConflict, tx.Commit())
	require.NoError(t, s.Close())

	// After the ingest, transactions that pin their state commit, although nothing was written since.
	defer d.Pins().Pin()()
	_, err := d.CompareAndSwap([]byte("y"), nil, []byte("v"), db.NoSync)
	require.NoError(t, err)
}

// Writes into the range of a table during its ingest are older than the table: before it is checked,
// while the memtables are flushed, and while it is rewritten because of such a write.
func TestWritesDuringAnIngestAreOlder(t *testing.T) {
	mem := vfs.NewMem()
	for _, suffix := range []string{"in/a", ".ldb", ".dbtmp"} { // of the file at whose creation or link a write happens
		h := hook{at: func(op wrap.Op) bool {
			return (op.Kind == wrap.OpCreate || op.Kind == wrap.OpLink) && strings.HasSuffix(op.Name, suffix)
		}}
		o := testOptions(h.over(mem))
		d := mustOpen(t, o)
		require.NoError(t, d.Put([]byte("a"), nil, db.NoSync))
		if suffix == ".dbtmp" {
			require.NoError(t, d.Put(testKey(105), []byte("early"), db.NoSync))
		}
		path := makeTable(t, o.FS, "in/a", keysFrom(100, 110, 0, "new "+suffix))
		h.arm(func() { require.NoError(t, d.Put(testKey(105), []byte("late"), db.NoSync)) })
		info := mustIngest(t, d, path)
		require.True(t, h.called())
		require.Equal(t, 1, info.Rewritten)
		requireValue(t, d, testKey(105), []byte("new "+suffix))
		require.NoError(t, d.Close())
	}
}

// Between the new version and the new sequence number nothing may be visible that was never the newest
// entry: an old entry of a key whose newest one has a new number.
func TestNoOldEntryIsVisibleDuringAnIngest(t *testing.T) {
	h := hook{at: of(wrap.OpRemove, "999999.ldb")} // the store removes this table when the version is in force
	o := testOptions(h.over(vfs.NewMem()))
	d := openTest(t, o)
	fill(t, d, 0, 10)
	require.NoError(t, d.Flush())
	d.Obsolete().AddUncertain(version.NewFileMeta(999_999, 1, nil, nil))
	h.arm(func() { requireValue(t, d, testKey(105), []byte("new")) })
	key := string(testKey(105))
	mustIngest(t, d, makeTable(t, o.FS, "in/a", []madeEntry{{key, 1000, "new"}, {key, 1, "old"}}))
	require.True(t, h.called())
}

// A deletion of a range finds entries that arrive meanwhile by their numbers, which a linked table does
// not have. So the ingest waits.
func TestAnIngestWaitsForTheDeletionOfARange(t *testing.T) {
	h := hook{at: of(wrap.OpCreate, ".dbtmp")}
	o := testOptions(h.over(vfs.NewMem()))
	d := openTest(t, o)
	fill(t, d, 0, 300)
	require.NoError(t, d.Compact(background, nil, nil))
	path := makeTable(t, o.FS, "in/a", keysFrom(500, 510, 0, "a"))
	h.arm(func() {
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, second(d.Ingest(ctx, []string{path}, nil)), context.DeadlineExceeded, "it did not wait")
	})
	require.NoError(t, d.DeleteRange(background, testKey(10), nil, nil))
	require.True(t, h.called())
	requireAbsent(t, d, testKey(505))
	require.Equal(t, 1, mustIngest(t, d, path).Linked)
	requireValue(t, d, testKey(505), []byte("a"))
}
