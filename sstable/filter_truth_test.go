package sstable

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/race"
)

var truthKeys = flag.Uint64("truth.keys", 10_000_000, "how many keys of each filter kind must be admitted")

// truthPolicies are the kinds of filter that tables are written with.
var truthPolicies = []filter.Policy{bloom, filter.LegacyBloom, lines}

// The filter of a table, read back from the file's bytes, admits every key of the table:
// there are no false negatives, with any kind of filter.
func TestFiltersHaveNoFalseNegatives(t *testing.T) {
	keys := *truthKeys
	if race.Enabled {
		keys = min(keys, 100_000)
	} else if testing.Short() {
		keys = min(keys, 1_000_000)
	}
	for _, p := range truthPolicies {
		t.Run(p.Name(), func(t *testing.T) {
			rnd := newRand(t)
			var denied, probed uint64
			for n := uint64(0); n < keys; n += tableOfTruth {
				d, a := askTable(t, p, rnd)
				denied, probed = denied+d, probed+a
			}
			require.Zero(t, denied, "of %d keys", probed)
			t.Logf("%d keys, 0 denied", probed)
		})
	}
}

// tableOfTruth is the number of keys in one table.
const tableOfTruth = 500_000

// askTable writes a table of ascending random keys of 8 to 11 bytes, opens it, and probes its filter with each of them.
func askTable(t testing.TB, p filter.Policy, rnd *rand.Rand) (denied, probed uint64) {
	var file bytes.Buffer
	w := NewWriter(&file, WriterOptions{Filter: unchecked(p), BlockSize: 64 << 10})
	keySeed := rnd.Uint64()
	walk := func(fn func(user []byte)) {
		steps := rand.New(rand.NewPCG(keySeed, 1))
		buf := make([]byte, 8, 16)
		for n, at := 0, uint64(0); n < tableOfTruth; n++ {
			at += 1 + steps.Uint64N(1<<44)
			binary.BigEndian.PutUint64(buf[:8], at)
			fn(buf[:8+at%4])
		}
	}
	var ikey []byte
	walk(func(user []byte) {
		ikey = base.AppendInternalKey(ikey[:0], user, 1, base.KindSet)
		if err := w.Add(ikey, nil); err != nil {
			t.Fatal(err)
		}
	})
	finish(t, w)
	r, err := Open(&memFile{data: file.Bytes()}, ReaderOptions{Policies: []filter.Policy{p}})
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, FilterWholeTable, r.FilterStatus().State)
	var lk Lookup
	walk(func(user []byte) {
		lk.Init(user, 1)
		probed++
		if !r.filter.mayContain(&lk) {
			denied++
		}
	})
	return denied, probed
}
