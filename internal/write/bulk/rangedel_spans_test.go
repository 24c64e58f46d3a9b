package bulk

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/work/changes"
)

func spanKey(n int) []byte { return fmt.Appendf(nil, "%03d", n) }

func tableOf(smallest, largest int) *manifest.FileMeta {
	return &manifest.FileMeta{
		Smallest: base.AppendInternalKey(nil, spanKey(smallest), 9, base.KindSet),
		Largest:  base.AppendInternalKey(nil, spanKey(largest), 3, base.KindSet),
	}
}

// A set of spans agrees with a set of numbers: 0 to 199.
func TestSpansAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 5))
	for range 500 {
		var model [200]bool
		var list []Span
		for range rnd.IntN(6) {
			from, to := rnd.IntN(200), rnd.IntN(200)
			a := Span{spanKey(from), spanKey(to)}
			if rnd.IntN(8) == 0 {
				from, a.Start = 0, nil
			}
			if rnd.IntN(8) == 0 {
				to, a.Limit = 200, nil
			}
			for n := from; n < to; n++ {
				model[n] = true
			}
			list = append(list, a)
		}
		s := NewSpans(base.Bytewise, list)
		for n, want := range model {
			require.Equal(t, want, s.Contains(spanKey(n)), "key %d of %q", n, list)
		}
		for range 30 {
			from := rnd.IntN(200)
			to := min(from+rnd.IntN(30), 199)
			all, meets := true, false
			for n := from; n <= to; n++ {
				all = all && model[n]
			}
			// A span meets a table if they overlap, whether or not a key of the model is between.
			for _, a := range s.All() {
				meets = meets || s.meets(tableOf(from, to), a)
			}
			require.Equal(t, all, s.Encloses(tableOf(from, to)), "table %d to %d, %q", from, to, list)
			require.True(t, meets || !all)
		}
		for i, a := range s.All() {
			if i > 0 {
				require.Less(t, string(s.All()[i-1].Limit), string(a.Start), "they neither overlap nor touch")
			}
		}
	}
}

func TestEmptySpans(t *testing.T) {
	s := NewSpans(base.Bytewise, []Span{{spanKey(5), spanKey(5)}, {spanKey(7), spanKey(6)}})
	require.True(t, s.Empty())
	require.False(t, s.Contains(spanKey(5)))
	require.False(t, NewSpans(base.Bytewise, []Span{{}}).Empty())
	require.True(t, NewSpans(base.Bytewise, []Span{{}}).Contains(nil))
}

func TestReadersOfChangesSeeTheSpansAndTheWritesOfADeletion(t *testing.T) {
	j := &deletion{spans: NewSpans(base.Bytewise, []Span{{spanKey(5), nil}, {nil, spanKey(2)}})}
	want := changes.Event{Ranges: []changes.Range{{Limit: spanKey(2)}, {Start: spanKey(5)}}}
	require.Equal(t, want, j.event())

	var own batch.Batch
	own.Add(base.KindDelete, spanKey(3), nil)
	own.Add(base.KindSet, spanKey(4), []byte("value"))
	want.Own = own.Record(1)
	j.own = []Entry{{Kind: base.KindDelete, Key: spanKey(3)}, {Kind: base.KindSet, Key: spanKey(4), Value: []byte("value")}}
	require.Equal(t, want, j.event())
}
