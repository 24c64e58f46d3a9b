package txn

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

func oneRange(from, to int) []Range { return []Range{{Lower: key(from), Upper: key(to), Closed: true}} }

func TestChangesWithoutNumbersAreThoseBetweenTheStartAndTheHorizon(t *testing.T) {
	var u Untraced
	require.Zero(t, u.Last())
	u.Add(10, Change{Gone: oneRange(1, 2)}, 5)
	u.Add(12, Change{}, 5)
	u.Add(20, Change{Came: oneRange(3, 4)}, 5)
	require.EqualValues(t, 20, u.Last())
	for _, test := range []struct {
		start, horizon uint64
		want           Change
	}{
		{9, 9, Change{}},
		{9, 10, Change{Gone: oneRange(1, 2)}},
		{9, 25, Change{Gone: oneRange(1, 2), Came: oneRange(3, 4)}},
		{10, 25, Change{Came: oneRange(3, 4)}},
		{10, 19, Change{}}, // it is not visible: the leader will have it examined again
		{20, 25, Change{}},
	} {
		got, known := u.Between(test.start, test.horizon)
		require.True(t, known)
		require.Equal(t, test.want, got, "%d to %d", test.start, test.horizon)
	}
	u.Add(30, Change{Gone: oneRange(5, 6)}, 10) // nothing that is open is older than 10
	require.Len(t, u.changes, 2)
	_, known := u.Between(10, 30)
	require.True(t, known)
}

// A snapshot that stays open for days must not make a list that grows with each ingest.
func TestForgottenChangesMayHaveChangedAll(t *testing.T) {
	var u Untraced
	const n = 3 * maxUntraced
	for seq := range uint64(n) {
		u.Add(seq+2, Change{Came: oneRange(1, 2)}, 1)
		require.LessOrEqual(t, len(u.changes), maxUntraced)
	}
	_, known := u.Between(1, n+1)
	require.False(t, known)
	c, known := u.Between(n, n+1)
	require.True(t, known)
	require.Len(t, c.Came, 1)
}

func TestThePartOfASetWithinRanges(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		bound := func() []byte {
			if rnd.IntN(8) == 0 {
				return nil
			}
			return key(rnd.IntN(60))
		}
		r, limits := &Reads{Comparer: base.Bytewise}, &Reads{Comparer: base.Bytewise}
		for range rnd.IntN(6) {
			r.AddKey(key(rnd.IntN(60)))
			r.AddRange(bound(), bound(), rnd.IntN(2) == 0)
			limits.AddRange(bound(), bound(), rnd.IntN(2) == 0)
		}
		r.ranges, limits.ranges = proper(r.ranges), proper(limits.ranges)
		ranges := append([]Range{}, limits.ranges...) // in any order, and they may overlap
		limits.Prepare()
		r.Prepare()
		w := r.Within(ranges)
		for n := range 60 {
			require.Equal(t, r.Covers(key(n)) && limits.Covers(key(n)), w.Covers(key(n)), "seed %d, key %d", seed, n)
		}
	}
}

// proper leaves out the ranges that end before they begin, which no walk makes.
func proper(ranges []Range) (out []Range) {
	for _, a := range ranges {
		if a.Lower == nil || a.Upper == nil || string(a.Lower) <= string(a.Upper) {
			out = append(out, a)
		}
	}
	return out
}

// A key conflicts with removed tables if it had an entry, and with tables that came if it has one. Keys in
// the gaps do not.
func TestOnlyKeysWithEntriesConflictWithChangesWithoutNumbers(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	s.Add(1, 5, "gone", 10, 14)
	pinned := s.Version()
	then := tabletest.New(t, filter.NewBloomPolicy(10))
	then.Add(1, 0, "came", 30, 34)
	now := then.Version()
	keys := func(from, to int) []Range {
		return []Range{{Lower: tabletest.Key(from), Upper: tabletest.Key(to), Closed: true}}
	}
	c := Change{Gone: keys(10, 14), Came: keys(30, 34)}
	for _, test := range []struct {
		key, to   int // a key, or a walk
		gone, now bool
	}{
		{5, 0, false, false}, {10, 0, true, false}, {12, 0, false, false}, {20, 0, false, false},
		{30, 0, false, true}, {32, 0, false, false}, {40, 0, false, false},
		{11, 13, false, false}, {11, 14, true, false}, {1, 9, false, false}, {1, 10, true, false},
		{31, 33, false, false}, {33, 50, false, true}, {35, 50, false, false}, {15, 29, false, false},
	} {
		r := &Reads{Comparer: base.Bytewise}
		if test.to == 0 {
			r.AddKey(tabletest.Key(test.key))
		} else {
			r.AddRange(tabletest.Key(test.key), tabletest.Key(test.to), true)
		}
		r.Prepare()
		found, err := r.ConflictUntraced(s.Cache, Change{Gone: c.Gone}, View{Version: pinned}, View{Version: now})
		require.NoError(t, err)
		require.Equal(t, test.gone, found, "%d to %d", test.key, test.to)
		found, err = r.ConflictUntraced(then.Cache, Change{Came: c.Came}, View{Version: pinned}, View{Version: now})
		require.NoError(t, err)
		require.Equal(t, test.now, found, "%d to %d", test.key, test.to)
	}
}
