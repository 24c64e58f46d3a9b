package lookup_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

// Lookups that are recorded find and count what others do, to the block.
func TestRecordedLookupsCountLikeOthers(t *testing.T) {
	w := fixture.WatchTables(t)
	o := storetest.WatchedOptions(w, nil)
	o.Cache.Size = 64 << 10 // some hits, some misses
	d := storetest.FilledLevels(t, o, 4000)
	require.Empty(t, d.SlowLookups(time.Hour), "the first call begins to record")
	const rounds = 6
	parts := w.During(func() {
		for i := range rounds * 8000 {
			value, err := d.Get(fixture.Key(i % 8000))
			require.Equal(t, i%8000%2 == 0, err == nil, "key %d: %s, %v", i, value, err)
		}
	})
	m := d.Metrics()
	require.EqualValues(t, rounds*8000, m.Lookups.Count)
	require.EqualValues(t, rounds*4000, m.Lookups.Found)
	require.EqualValues(t, parts["data"], m.Total().BlocksFromDisk)
	require.EqualValues(t, parts["index"], m.Total().IndexReads)
	require.EqualValues(t, rounds*4000, m.Total().FilterTruePositives)
	require.Equal(t, m.Total().Reads, m.Total().FilterChecks)
	require.Positive(t, m.Latency.Get.Count)

	slow := d.SlowLookups(time.Hour)
	require.NotEmpty(t, slow)
	last := time.Duration(1 << 62)
	for _, s := range slow {
		require.LessOrEqual(t, s.Explanation.Duration, last, "the slowest first")
		last = s.Explanation.Duration
		require.NotEmpty(t, s.Explanation.Steps)
		require.Len(t, s.Key, s.KeyBytes)
		x := storetest.Explain(t, d, s.Key)
		require.Equal(t, x.Found, s.Explanation.Found)
		require.Len(t, s.Explanation.Steps, len(x.Steps))
		require.Nil(t, s.Explanation.Steps[len(s.Explanation.Steps)-1].Smallest)
	}
	require.NoError(t, d.Close())
	require.Empty(t, d.SlowLookups(time.Hour))
}

// Lookups of several goroutines are all counted while they are recorded and somebody asks for the slowest.
func TestConcurrentLookupsAreRecorded(t *testing.T) {
	d := storetest.FilledLevels(t, storetest.WatchedOptions(fixture.WatchTables(t), nil), 4000)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 4000 {
				_, err := d.Get(fixture.Key(2*i%4000 + g%2))
				assert.Equal(t, g%2 == 0, err == nil)
				if i%100 == 0 {
					d.SlowLookups(time.Hour)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 16000, d.Metrics().Lookups.Count)
	require.EqualValues(t, 8000, d.Metrics().Lookups.Found)
	require.NotEmpty(t, d.SlowLookups(time.Hour))
}

// The bug: the longest duration, for a program that records as long as it runs, ended the recording at once.
func TestLookupsAreRecordedForAsLongAsOneAsks(t *testing.T) {
	d := storetest.FilledLevels(t, storetest.WatchedOptions(fixture.WatchTables(t), nil), 4000)
	require.Empty(t, d.SlowLookups(math.MaxInt64))
	for i := range 4000 {
		result.Of(d.Get(fixture.Key(2 * i % 4000)))(t)
	}
	require.NotEmpty(t, d.SlowLookups(math.MaxInt64))
}

// A snapshot explains a key as it was, and so does its sequence number while it is open.
func TestExplainAtASnapshot(t *testing.T) {
	d := storetest.FilledLevels(t, storetest.WatchedOptions(fixture.WatchTables(t), nil), 4000)
	require.Empty(t, d.OpenSnapshots())
	s := d.NewSnapshot()
	require.Equal(t, []uint64{s.Sequence()}, d.OpenSnapshots())
	key := fixture.Key(2)
	require.NoError(t, d.Delete(key, nil))
	require.True(t, storetest.Explain(t, d, key).Deleted)
	x := result.Of(s.Explain(key))(t)
	require.True(t, x.Found)
	at := result.Of(d.ExplainAt(key, s.Sequence()))(t)
	require.True(t, at.Found)
	require.Len(t, at.Steps, len(x.Steps))

	seq := s.Sequence()
	require.NoError(t, s.Close())
	require.ErrorContains(t, result.Err(d.ExplainAt(key, seq)), "no snapshot with the sequence number")
	require.Error(t, result.Err(s.Explain(key)))
	require.Zero(t, s.Sequence())
}
