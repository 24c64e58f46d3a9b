package db_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// expiringDatabase makes a database with values that expire under t/, of which t/b and t/d have, partly in the log.
func expiringDatabase(t *testing.T, cmp *db.Comparer) (*testClock, *db.Options) {
	t.Helper()
	c := newTestClock()
	o := expiryOptions(c)
	o.Comparer = cmp
	d := mustOpen(t, o)
	putTTL(t, d, "t/a", "1", time.Hour)
	putTTL(t, d, "t/b", "2", time.Second)
	putAll(t, d, "t/c", "3", "u", "4")
	require.NoError(t, d.Flush())
	putTTL(t, d, "t/d", "5", time.Second)
	putTTL(t, d, "t/e", "6", time.Hour)
	c.move(time.Second)
	d.Metrics()
	require.NoError(t, d.Close())
	return c, o
}

// asked returns the options of o with other prefixes.
func asked(o *db.Options, prefixes ...string) *db.Options {
	other := *o
	other.Expiry.Prefixes = nil
	for _, prefix := range prefixes {
		other.Expiry.Prefixes = append(other.Expiry.Prefixes, []byte(prefix))
	}
	return &other
}

// The bug: without the option, readers saw the envelopes as parts of the values, and values that had
// expired. What was written had no envelope.
func TestADatabaseRemembersWhichValuesExpire(t *testing.T) {
	for _, cmp := range []*db.Comparer{db.BytewiseComparer, reversedOrder} {
		c, o := expiringDatabase(t, cmp)
		content := []string{"t/a", "1", "t/b", "", "t/c", "3", "t/d", "", "t/e", "6", "u", "4"}
		without := asked(o)
		readOnly := *without
		readOnly.ReadOnly = true
		requireShown(t, &readOnly, content...)
		for range 2 {
			d := mustOpen(t, without)
			requireContent(t, d, content...)
			putAll(t, d, "t/f", "7")
			putTTL(t, d, "t/g", "8", time.Hour)
			requireEverywhere(t, d, append(content, "t/f", "7", "t/g", "8")...)
			if cmp == db.BytewiseComparer {
				f := mustFollow(t, without)
				requireContent(t, f, append(content, "t/f", "7", "t/g", "8")...)
				require.NoError(t, f.Close())
			}
			checkpointTo(t, d, "copy")
			copied, err := db.Open("copy", without)
			require.NoError(t, err)
			requireContent(t, copied, append(content, "t/f", "7", "t/g", "8")...)
			require.NoError(t, copied.Close())
			require.NoError(t, db.Destroy("copy", without))
			require.NoError(t, d.Close())
		}
		c.move(time.Hour)
		requireShown(t, without, "t/a", "", "t/c", "3", "t/e", "", "t/f", "7", "t/g", "", "u", "4")
	}
}

func TestLoadsAndIngestsAndChangesUseTheRecordedPrefixes(t *testing.T) {
	c, o := expiringDatabase(t, db.BytewiseComparer)
	without := asked(o)
	without.Changes = db.ChangeRetention{Bytes: 1 << 20}
	d := mustOpen(t, without)
	_, from, err := d.ChangePositions()
	require.NoError(t, err)
	l := newLoader(t, d)
	require.NoError(t, l.Put([]byte("t/x"), []byte("1")))
	require.NoError(t, l.PutTTL([]byte("t/y"), []byte("2"), time.Minute))
	require.NoError(t, l.Commit())
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		return tx.PutTTL([]byte("t/z"), []byte("3"), time.Minute)
	}))
	requireContent(t, d, "t/x", "1", "t/y", "2", "t/z", "3")
	var got []string
	for change, err := range d.Changes(t.Context(), from, &db.ChangeOptions{Unsynced: true}) {
		require.NoError(t, err)
		for e, err := range change.Entries() {
			require.NoError(t, err)
			got = append(got, string(e.Key)+"="+string(e.Value)+" "+e.TTL.String())
		}
	}
	require.Equal(t, []string{"t/x=1 0s", "t/y=2 1m0s", "t/z=3 1m0s"}, got)
	c.move(time.Minute)
	requireContent(t, d, "t/x", "1", "t/y", "", "t/z", "")
	require.NoError(t, d.Close())
}

// What is recorded holds with other prefixes too. More can be added where no value lacks an envelope.
func TestPrefixesAreAddedToTheRecordedOnes(t *testing.T) {
	for _, cmp := range []*db.Comparer{db.BytewiseComparer, reversedOrder} {
		_, o := expiringDatabase(t, cmp)
		d := mustOpen(t, asked(o, "t/a", "v/"))
		requireContent(t, d, "t/a", "1", "t/b", "", "t/c", "3", "t/e", "6", "u", "4")
		putTTL(t, d, "v/", "7", time.Second)
		require.NoError(t, d.Close())
		files := readDir(t, o.FS, "db")
		for _, prefix := range []string{"", "u", "s"} {
			_, err := db.Open("db", asked(o, prefix))
			if prefix == "s" {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, "has values under them that were written without the option")
			require.ErrorContains(t, err, `it has recorded the prefixes ["t/" "v/"]`)
			require.Equal(t, files, readDir(t, o.FS, "db"), "nothing is changed")
		}
	}
	_, o := expiringDatabase(t, db.BytewiseComparer)
	d := mustOpen(t, asked(o))
	require.NoError(t, d.Delete([]byte("u"), nil))
	require.NoError(t, d.Close())
	d = mustOpen(t, asked(o, "")) // the tombstone is in the log, and the value in a table
	putTTL(t, d, "u", "8", time.Hour)
	requireContent(t, d, "t/a", "1", "t/b", "", "t/c", "3", "t/e", "6", "u", "8")
	require.NoError(t, d.Close())
}

func TestRawShowsValuesAsTheyAreStored(t *testing.T) {
	c, o := expiringDatabase(t, db.BytewiseComparer)
	raw := asked(o)
	raw.Expiry.Raw = true
	var stored []byte
	for _, follow := range []bool{true, false} {
		d, err := db.OpenAs("db", raw, follow)
		require.NoError(t, err)
		for _, key := range []string{"t/a", "t/b", "t/c", "t/d", "t/e"} {
			stored, err = d.Get([]byte(key))
			require.NoError(t, err)
			require.Len(t, stored, 10)
		}
		if !follow {
			require.NoError(t, d.Put([]byte("t/f"), stored, nil))
			putAll(t, d, "t/g", "no envelope")
			require.ErrorContains(t, d.PutTTL([]byte("t/a"), nil, 1, nil), "Options.Expiry.Prefixes")
		}
		require.NoError(t, d.Close())
	}
	d := mustOpen(t, asked(o))
	got, err := d.Get([]byte("t/f"))
	require.NoError(t, err)
	require.Equal(t, "6", string(got))
	_, err = d.Get([]byte("t/g"))
	require.ErrorIs(t, err, db.ErrNoEnvelope)
	c.move(time.Hour)
	_, err = d.Get([]byte("t/f"))
	require.ErrorIs(t, err, db.ErrNotFound)
	require.NoError(t, d.Close())
	raw.Expiry.Namespaces = []string{"n"}
	_, err = db.Open("db", raw)
	require.ErrorContains(t, err, "Options.Expiry.Raw shows values as they are stored, so Prefixes and Namespaces must be empty")
}

// setEarlierRecord makes the MANIFEST one of a version that recorded only the time.
func setEarlierRecord(t *testing.T, o *db.Options, recorded bool) {
	t.Helper()
	set, st, err := manifest.Load(manifest.SetOptions{FS: o.FS, Dir: "db", Cmp: o.Comparer})
	require.NoError(t, err)
	edit := &manifest.Edit{
		Comparer: o.Comparer.Name, LogNum: manifest.Num(st.LogNum), PrevLogNum: manifest.Num(0),
		NextFileNum: manifest.Num(set.NextFileNum() + 1), LastSeq: manifest.Num(st.LastSeq),
	}
	set.Current().Files(func(level int, f *manifest.FileMeta) {
		edit.Added = append(edit.Added, manifest.LevelFile{Level: level, File: f})
	})
	if recorded {
		user := binary.LittleEndian.AppendUint64([]byte("sievedb.time\x00"), st.Recorded.Time)
		key := base.AppendInternalKey(nil, user, 0, base.KindDelete)
		edit.CompactPointers = []manifest.CompactPointer{{Level: 6, Key: key}}
	}
	num := set.NextFileNum()
	require.NoError(t, manifest.WriteFile(o.FS, "db", num, edit))
	require.NoError(t, manifest.SetCurrent(o.FS, "db", num))
}

// Databases of earlier versions record that values expire, but not which, and with another comparer nothing.
func TestADatabaseOfAnEarlierVersionNeedsTheOptionOnce(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		_, o := expiringDatabase(t, db.BytewiseComparer)
		setEarlierRecord(t, o, recorded)
		if recorded {
			for _, open := range []func(string, *db.Options) (*db.DB, error){db.Open, db.OpenFollower} {
				for _, readOnly := range []bool{true, false} {
					w := asked(o)
					w.ReadOnly = readOnly
					_, err := open("db", w)
					require.ErrorContains(t, err, "its MANIFEST does not say under which prefixes")
					require.NotErrorIs(t, err, db.ErrCorruption)
				}
			}
		}
		readOnly := *o
		readOnly.ReadOnly = true
		requireShown(t, &readOnly, "t/a", "1", "t/b", "", "t/c", "3", "t/d", "", "t/e", "6", "u", "4")
		require.NoError(t, mustOpen(t, o).Close())
		requireShown(t, asked(o), "t/a", "1", "t/b", "", "t/c", "3", "t/d", "", "t/e", "6", "u", "4")
	}
}

// A follower learns of prefixes that the writer adds.
func TestAFollowerUsesPrefixesThatTheWriterAdds(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	d := mustOpen(t, asked(o))
	putAll(t, d, "s", "0")
	require.NoError(t, d.Close())
	f := mustFollow(t, asked(o))
	require.Zero(t, f.Metrics().Expiry.Time)
	d = openTest(t, o)
	putTTL(t, d, "t/a", "1", time.Second)
	requireContent(t, f, "s", "0", "t/a", "")
	require.NoError(t, f.Refresh(t.Context()))
	requireContent(t, f, "s", "0", "t/a", "1")
	c.move(time.Second)
	requireContent(t, f, "s", "0", "t/a", "")
}

// A repair keeps the record of a damaged MANIFEST. Without any MANIFEST it knows that values expire.
func TestRepairKeepsWhichValuesExpire(t *testing.T) {
	content := []string{"t/a", "1", "t/b", "", "t/c", "3", "t/d", "", "t/e", "6", "u", "4"}
	for _, damage := range []string{"CURRENT", "MANIFEST", "time"} {
		c, o := expiringDatabase(t, db.BytewiseComparer)
		d := mustOpen(t, asked(o))
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		require.NoError(t, d.Close())
		if damage == "time" {
			d = mustOpen(t, asked(o))
			c.move(48 * time.Hour)
			d.Metrics()
			require.NoError(t, d.Close())
			c.move(-48 * time.Hour)
		} else {
			o.FS = copyFS(t, o.FS)
			require.NoError(t, o.FS.Remove(filepath.Join("db", "CURRENT")))
		}
		if damage == "MANIFEST" {
			for _, name := range namesOf(t, o.FS, base.FileManifest) {
				require.NoError(t, o.FS.Remove(filepath.Join("db", name)))
			}
		}
		report, err := db.RepairWithReport("db", asked(o))
		require.NoError(t, err)
		require.False(t, report.Healthy)
		if damage == "MANIFEST" {
			_, err := db.Open("db", asked(o))
			require.ErrorContains(t, err, "its MANIFEST does not say under which prefixes")
			require.NoError(t, mustOpen(t, o).Close())
		}
		requireShown(t, asked(o), content...)
	}
}

// requireShown opens a database, requires its content, and closes it.
func requireShown(t *testing.T, o *db.Options, pairs ...string) {
	t.Helper()
	d := mustOpen(t, o)
	requireContent(t, d, pairs...)
	require.NoError(t, d.Close())
}

// requireEverywhere is requireContent for the present, after a flush and after a compaction.
func requireEverywhere(t *testing.T, d *db.DB, pairs ...string) {
	t.Helper()
	requireContent(t, d, pairs...)
	require.NoError(t, d.Flush())
	requireContent(t, d, pairs...)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	requireContent(t, d, pairs...)
}
