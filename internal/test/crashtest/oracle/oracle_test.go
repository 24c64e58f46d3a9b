package oracle

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func put(key, value string) Op { return Op{Key: key, Value: value} }

// example returns a history of two writers.
func example() *History {
	return New([]*Batch{
		{Writer: 0, Number: 1, Issued: 0, Acked: 2, Ops: []Op{put("a", "1"), put("b", "1")}},
		{Writer: 1, Number: 1, Issued: 1, Acked: 4, Sync: true, Ops: []Op{put("a", "2"), {Key: "b", Delete: true}}},
		{Writer: 0, Number: 2, Issued: 4, Acked: 5, Ops: []Op{put("c", "3")}},
		{Writer: 0, Number: 3, Issued: 5, Acked: Never, Ops: []Op{put("b", "4")}},
	})
}

func state(pairs ...string) []Entry {
	var s []Entry
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, Entry{pairs[i], pairs[i+1]})
	}
	slices.SortFunc(s, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return s
}

var w0, w1 = MarkerKey(0), MarkerKey(1)

func TestEveryPrefixIsRecognized(t *testing.T) {
	h := example()
	for n, s := range [][]Entry{
		state(),
		state(w0, "1", "a", "1", "b", "1"),
		state(w0, "1", w1, "1", "a", "2"),
		state(w0, "2", w1, "1", "a", "2", "c", "3"),
		state(w0, "3", w1, "1", "a", "2", "b", "4", "c", "3"),
	} {
		got, err := h.Prefix(s)
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
}

func TestImpossibleStatesAreRefused(t *testing.T) {
	cases := []struct {
		claim string
		state []Entry
		cut   int
		all   bool
		why   string
	}{
		{"half a batch", state(w0, "1", "a", "1"), 2, false, `"b" is missing`},
		{"a batch without its marker", state("a", "1", "b", "1"), 2, false, "must not exist"},
		{"a hole in the commit order", state(w0, "2", "a", "1", "b", "1", "c", "3"), 5, false, "not a prefix"},
		{"a deleted key that came back", state(w0, "1", w1, "1", "a", "2", "b", "1"), 4, false, `"b" has value "1"`},
		{"a stale value", state(w0, "1", w1, "1", "a", "1"), 4, false, `must be "2"`},
		{"a value never written", state(w0, "1", "a", "x", "b", "1"), 2, false, `must be "1"`},
		{"a key never written", state(w0, "1", "a", "1", "b", "1", "z", "1"), 2, false, `"z" has value "1"`},
		{"a marker never written", state(w0, "9"), 2, false, "never written"},
		{"a synced batch lost", state(w0, "1", "a", "1", "b", "1"), 4, false, "the first 2 were promised"},
		{"an acknowledged batch lost with the process alone", state(w0, "1", w1, "1", "a", "2"), 5, true, "the first 3 were promised"},
		{"a batch from the future", state(w0, "1", w1, "1", "a", "2"), 1, false, "only 1 had been issued"},
		{"keys out of order", []Entry{{w0, "1"}, {"b", "1"}, {"a", "1"}}, 2, false, "follows"},
	}
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) {
			_, err := example().Check(c.state, c.cut, c.all)
			require.ErrorContains(t, err, c.why)
		})
	}
}

func TestUnpromisedBatchesMayBeThereOrNot(t *testing.T) {
	h := example()
	for _, s := range [][]Entry{
		state(w0, "1", w1, "1", "a", "2"),
		state(w0, "2", w1, "1", "a", "2", "c", "3"),
		state(w0, "3", w1, "1", "a", "2", "b", "4", "c", "3"),
	} {
		_, err := h.Check(s, 6, false)
		require.NoError(t, err)
	}
	low, high := h.Bounds(6, true)
	require.Equal(t, []int{3, 4}, []int{low, high}, "a batch without an acknowledgement may be there or not")
}

func TestSkippedBatchNumbersPanic(t *testing.T) {
	require.Panics(t, func() { New([]*Batch{{Writer: 0, Number: 2}}) })
}
