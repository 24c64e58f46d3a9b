package expiry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A store that recorded prefixes gets only those that are for more keys.
func TestPrefixesAreJoined(t *testing.T) {
	bytesOf := func(all ...string) (prefixes [][]byte) {
		for _, s := range all {
			prefixes = append(prefixes, []byte(s))
		}
		return prefixes
	}
	for _, c := range []struct{ recorded, asked, all, added [][]byte }{
		{bytesOf("b"), nil, bytesOf("b"), nil},
		{nil, bytesOf("b", "a"), bytesOf("a", "b"), bytesOf("a", "b")},
		{bytesOf("b"), bytesOf("b", "b/c"), bytesOf("b"), nil},
		{bytesOf("b/c", "d"), bytesOf("b", "e"), bytesOf("b", "d", "e"), bytesOf("b", "e")},
		{bytesOf("b"), bytesOf(""), bytesOf(""), bytesOf("")},
	} {
		all, added := Join(c.recorded, c.asked)
		require.Equal(t, c.all, all)
		require.Equal(t, c.added, added)
	}
}

func TestTimesToLiveOfABatch(t *testing.T) {
	var a, b TTLs
	require.NoError(t, a.Add(0, time.Second))
	a.AddUntil(2, 77)
	require.ErrorContains(t, b.Add(1, -time.Second), "must be positive")
	a.Append(5, b)
	all := a
	for entry, want := range []entryTTL{{ttl: time.Second}, {}, {until: 77}, {}, {}, {}, {ttl: -time.Second}, {}} {
		ttl, until := all.Next(entry)
		require.Equal(t, want.ttl, ttl, "entry %d", entry)
		if want.until > 0 {
			require.Equal(t, want.until, until, "entry %d", entry)
		} else {
			require.Equal(t, uint64(Never), until, "entry %d", entry)
		}
	}
	require.Len(t, a, 3, "Next is called on a copy")
}

func TestTimesAreCompared(t *testing.T) {
	require.EqualValues(t, 3, Earlier(3, 5))
	require.EqualValues(t, 3, Earlier(5, 3))
	require.EqualValues(t, 3, Earlier(Never, 3))
	require.EqualValues(t, 3, Earlier(3, Never))
	require.EqualValues(t, Never, Earlier(Never, Never))
	require.Equal(t, 2*time.Millisecond, Remaining(5, 3))
	require.Zero(t, Remaining(Never, 3), "for ever")
	require.Zero(t, Remaining(3, 5), "it is over")
	require.Greater(t, Remaining(MaxTime, 0), time.Duration(math.MaxInt64/2))
}

func TestWhatAPolicyDoesWithAPut(t *testing.T) {
	p := New([][]byte{[]byte("s/")}, func() time.Time { return time.UnixMilli(1000) })
	require.NoError(t, p.CheckPut([]byte("s/a"), time.Second))
	require.ErrorContains(t, p.CheckPut([]byte("s/a"), 0), "must be positive")
	require.ErrorContains(t, p.CheckPut([]byte("t/a"), time.Second), "under none of Options.Expiry.Prefixes")

	require.Equal(t, "v", string(p.SealUntil(nil, []byte("t/a"), []byte("v"), 77)))
	sealed := p.SealUntil(nil, []byte("s/a"), []byte("v"), 77)
	at, ok := p.Deadline([]byte("s/a"), sealed)
	require.True(t, ok)
	require.EqualValues(t, 77, at)
	deadline, keys := p.ForTables()
	at, ok = deadline([]byte("s/a"), sealed)
	require.True(t, ok && at == 77 && keys == p.Sum())
	deadline, keys = (*Policy)(nil).ForTables()
	require.True(t, deadline == nil && keys == 0)

	p.CountHidden(3)
	require.EqualValues(t, 3, p.Hidden())
	require.Zero(t, (*Policy)(nil).Hidden())
}
