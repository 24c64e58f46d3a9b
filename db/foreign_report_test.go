package db_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// LevelDB's tables have a small filter for each 2 KiB and do not record the number of their keys.
func TestFilterReportsOfBlockRangeFilters(t *testing.T) {
	const n = 20000
	rng := rand.New(rand.NewPCG(3, 4))
	random, _ := binaryKeys(rng, n, 16)
	oddTails, _ := binaryKeys(rng, n, 7)
	var bigEndian [][]byte
	for i := range n {
		bigEndian = append(bigEndian, binary.BigEndian.AppendUint64(nil, uint64(2*i)))
	}
	cases := []struct {
		name     string
		policy   filter.Policy
		perBlock bool
		keys     [][]byte
		verdict  report.FilterVerdict
	}{
		{"random keys", filter.NewBloomPolicy(10), true, random, report.VerdictGood},
		{"random keys, one filter per table", filter.NewBloomPolicy(10), false, random, report.VerdictGood},
		{"big-endian counters", filter.NewBloomPolicy(10), true, bigEndian, report.VerdictCollisions},
		{"big-endian counters, one filter per table", filter.NewBloomPolicy(10), false, bigEndian, report.VerdictGood},
		{"goleveldb's", goleveldb, true, oddTails, report.VerdictGood},
		{"LevelDB's before 1.18", leveldb117, true, oddTails, report.VerdictGood},
		{"two bits per key", filter.NewBloomPolicy(2), true, random, report.VerdictGood},
		{"one bit per key, one filter per table", filter.NewBloomPolicy(1), false, random, report.VerdictSaturated},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			foreignDB(t, fsys, c.policy, c.perBlock, c.keys)
			d := openTest(t, &db.Options{FS: fsys, ReadOnly: true})
			r, err := d.Filters(t.Context(), 4000)
			require.NoError(t, err)
			require.Len(t, r.Tables, 4)
			var keys uint64
			for _, f := range r.Tables {
				require.Equal(t, c.verdict, f.Verdict, f.Detail)
				keys += f.Keys
				require.Zero(t, f.Probes.Denied)
				require.Positive(t, f.BlockBytes)
			}
			if c.verdict != report.VerdictCollisions { // keys of one hash count as one
				require.InEpsilon(t, n, keys, 0.15, "the number of keys is estimated")
			}
			require.Equal(t, keys, r.Levels[0].Keys+r.Levels[1].Keys)
		})
	}
}
