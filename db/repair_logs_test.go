package db

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

// numbered returns a batch that puts keys, with sequence numbers from seq on.
func numbered(seq uint64, value string, keys ...string) []byte {
	var b Batch
	for _, key := range keys {
		b.Put([]byte(key), []byte(value))
	}
	return b.content.Record(seq)
}

// The bug: a value may contain a log, for example in a backup of another database. If the record
// around it was torn or damaged, a repair used the records in the value as the database's own.
func TestRepairIgnoresALogWithinAValue(t *testing.T) {
	foreign := string(logBytes(t, numbered(1<<40, "foreign", "a", "foreign"), numbered(1<<40+2, "foreign", "b")))
	whole := logBytes(t, numbered(1, "own", "a", "b"), numbered(3, foreign, "copy"), numbered(4, "own", "c"))
	cases := []struct {
		name string
		log  []byte
		want contents
	}{
		{"torn", whole[:len(whole)-40], contents{"a": "own", "b": "own"}},
		{"damaged", func() []byte { b := append([]byte(nil), whole...); b[50] ^= 1; return b }(), contents{"a": "own", "b": "own", "c": "own"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := repairDir{base.FileName(base.FileLog, 3): c.log}
			d.addManifest(t, 2, hostileEdit())
			got, rep, _ := d.repaired(t)
			require.Equal(t, c.want, got, "%s", rep)
			require.Less(t, rep.LastSequence, uint64(10))
		})
	}
}

// The entries of a record that does not decode count among the operations that may be missing.
func TestRecordsAfterAnInvalidBatchAndDamageAreFound(t *testing.T) {
	bad := numbered(2, "", make([]string, 200)...)
	bad[len(bad)-1] = 9 // the length of a value that is missing
	whole := logBytes(t, numbered(1, "own", "a"), bad, numbered(202, "own", "lost"), numbered(203, "own", "b"))
	whole[len(whole)-40] ^= 1
	d := repairDir{base.FileName(base.FileLog, 3): whole}
	d.addManifest(t, 2, hostileEdit())
	got, rep, _ := d.repaired(t)
	require.Equal(t, contents{"a": "own", "b": "own"}, got, "%s", rep)

	o := testOptions(d.fs(t))
	o.Salvage = SalvageAll
	require.Equal(t, got, contentsIn(t, openTest(t, o)))
}
