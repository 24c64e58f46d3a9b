package db_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	filedump "github.com/sievedb/sievedb/internal/work/dump"
	"github.com/sievedb/sievedb/util"
)

// newerChunk returns a chunk of a log.
func newerChunk(kind byte, payload []byte) []byte {
	c := append([]byte{0, 0, 0, 0, byte(len(payload)), byte(len(payload) >> 8), kind}, payload...)
	util.PutFixed32(c, util.MaskCRC(util.CRC32C(c[6:])))
	return c
}

// requireNewer checks that err is about something that a newer version wrote.
func requireNewer(t *testing.T, err error, found string) {
	t.Helper()
	var n *db.NewerError
	require.ErrorAs(t, err, &n)
	require.ErrorIs(t, err, db.ErrNewer)
	require.NotErrorIs(t, err, db.ErrCorruption)
	require.Contains(t, n.Found, found)
	require.NotEmpty(t, n.File)
	require.NotContains(t, n.Error(), "epair", "no advice to repair")
}

// A directory of a newer version was refused as damaged, with the advice to repair. Repair then left out
// what it could not read.
func TestADirectoryOfANewerVersionIsLeftAlone(t *testing.T) {
	files, _ := sampleStore(t)
	current, log := files.Only(base.FileManifest)[0], files.Only(base.FileLog)[0]
	appendTo := func(name string, b []byte) func(repairDir) {
		return func(d repairDir) { d[name] = append(bytes.Clone(d[name]), b...) }
	}
	batch := util.AppendFixed32(util.AppendFixed64(nil, 1<<40), 1)
	for _, c := range []struct {
		name, found string
		make        func(repairDir)
	}{
		{"a tag of an edit", "tag 77", appendTo(current, newerChunk(1, []byte{77, 1}))},
		{"a chunk at the end of the MANIFEST", "chunk kind 9", appendTo(current, newerChunk(9, []byte{2, 1}))},
		{"a chunk at the end of the log", "chunk kind 9", appendTo(log, newerChunk(9, batch))},
		{"an entry of the log", "kind 2", appendTo(log, newerChunk(1, append(batch, 2, 1, 'k', 1, 'v')))},
		{"CLOSED", "sieveCL2", func(d repairDir) {
			d["CLOSED"] = util.AppendFixed32([]byte("sieveCL2"), util.MaskCRC(util.CRC32C([]byte("sieveCL2"))))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := files.Clone()
			c.make(d)
			o := testOptions(d.FS(t))
			requireNewer(t, second(db.Open("db", o)), c.found)
			requireNewer(t, db.Repair("db", o), c.found)
			if c.name != "CLOSED" { // a follower does not read it
				requireNewer(t, second(db.OpenFollower("db", o)), c.found)
			}
			o.Salvage = db.SalvageAll
			requireNewer(t, second(db.Open("db", o)), c.found)
			o.ReadOnly = true
			requireNewer(t, second(db.Open("db", o)), c.found)
			d.RequireSame(t, readDir(t, o.FS, "db"))
		})
	}
}

func TestATableOfANewerVersionIsReportedAndKept(t *testing.T) {
	files, model := sampleStore(t)
	name := files.Only(base.FileTable)[0]
	mem := files.FS(t)
	restampFirstBlock(t, mem, "db/"+name, 9)
	d, o := readDir(t, mem, "db"), testOptions(mem)

	requireNewer(t, db.Repair("db", o), "compression kind 9")
	d.RequireSame(t, readDir(t, o.FS, "db"))

	store := mustOpen(t, o)
	report, err := store.Check(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, report.Faults)
	require.Contains(t, report.Faults[0], "written by a newer version: ")
	require.NotContains(t, report.Faults[0], "epair")
	requireNewer(t, store.Compact(t.Context(), nil, nil), "compression kind 9")
	failed := 0
	for key := range model {
		if _, err := store.Get([]byte(key)); err != nil {
			requireNewer(t, err, "compression kind 9")
			failed++
		}
	}
	require.Positive(t, failed)
	require.NoError(t, store.Close())
	require.Equal(t, d[name], readDir(t, o.FS, "db")[name], "nothing replaced it")

	marked := 0
	_, err = filedump.File(o.FS, "db/"+name, filedump.Options{}, func(i *filedump.Item) error {
		if i.Fault != "" {
			require.Contains(t, i.Fault, "written by a newer version: ")
			marked++
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, marked)
}

// The cursors of a newer version were dropped and overwritten, and with them went the changes that they kept.
func TestChangesOfANewerVersionAreKept(t *testing.T) {
	files, _ := sampleStore(t)
	o := testOptions(files.FS(t))
	o.Changes = db.ChangeRetention{Bytes: 1 << 20}
	d := mustOpen(t, o)
	_, last, err := d.ChangePositions()
	require.NoError(t, err)
	require.NoError(t, d.SetCursor("c", last))
	require.NoError(t, d.Close())
	body := "sievedb cursors 2\n7 \"c\" held\n"
	cursors := fmt.Appendf(nil, "%scrc32c %08x\n", body, util.CRC32C([]byte(body)))
	writeFile(t, o.FS, "db/changes/CURSORS", cursors)
	requireNewer(t, second(db.Open("db", o)), "version 2")
	require.Equal(t, cursors, readDir(t, o.FS, "db/changes")["CURSORS"])
	require.NoError(t, db.Repair("db", o))
	require.Equal(t, cursors, readDir(t, o.FS, "db/changes")["CURSORS"])
}
