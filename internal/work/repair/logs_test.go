package repair_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// The bug: a value may contain a log, for example in a backup of another database. If the record
// around it was torn or damaged, a repair used the records in the value as the database's own.
func TestRepairIgnoresALogWithinAValue(t *testing.T) {
	foreign := string(fixture.Log(t, fixture.Batch(1<<40, "foreign", "a", "foreign"), fixture.Batch(1<<40+2, "foreign", "b")))
	whole := fixture.Log(t, fixture.Batch(1, "own", "a", "b"), fixture.Batch(3, foreign, "copy"), fixture.Batch(4, "own", "c"))
	cases := []struct {
		name string
		log  []byte
		want fixture.Contents
	}{
		{"torn", whole[:len(whole)-40], fixture.Contents{"a": "own", "b": "own"}},
		{"damaged", func() []byte { b := append([]byte(nil), whole...); b[50] ^= 1; return b }(), fixture.Contents{"a": "own", "b": "own", "c": "own"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := fixture.Dir{base.FileName(base.FileLog, 3): c.log}
			d.AddManifest(t, 2, fixture.EmptyEdit())
			got, rep, _ := storetest.Repaired(t, d)
			require.Equal(t, c.want, got, "%s", rep)
			require.Less(t, rep.LastSequence, uint64(10))
		})
	}
}

// The entries of a record that does not decode count among the operations that may be missing.
func TestRecordsAfterAnInvalidBatchAndDamageAreFound(t *testing.T) {
	bad := fixture.Batch(2, "", make([]string, 200)...)
	bad[len(bad)-1] = 9 // the length of a value that is missing
	whole := fixture.Log(t, fixture.Batch(1, "own", "a"), bad, fixture.Batch(202, "own", "lost"), fixture.Batch(203, "own", "b"))
	whole[len(whole)-40] ^= 1
	d := fixture.Dir{base.FileName(base.FileLog, 3): whole}
	d.AddManifest(t, 2, fixture.EmptyEdit())
	got, rep, _ := storetest.Repaired(t, d)
	require.Equal(t, fixture.Contents{"a": "own", "b": "own"}, got, "%s", rep)

	o := storetest.Options(d.FS(t))
	o.Salvage = db.SalvageAll
	require.Equal(t, got, storetest.Contents(t, storetest.Open(t, o)))
}
