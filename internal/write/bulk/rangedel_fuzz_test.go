package bulk

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// opsBatch returns a batch of operations that the bytes describe: a byte that says which one, and two strings, each
// after its length in a byte.
func opsBatch(ops []byte) *batch.Batch {
	b := new(batch.Batch)
	next := func() (s []byte) {
		if len(ops) == 0 {
			return nil
		}
		n := min(int(ops[0]%8), len(ops)-1)
		s, ops = ops[1:1+n], ops[1+n:]
		return s
	}
	for len(ops) > 0 {
		op := ops[0] % 4
		ops = ops[1:]
		first, second := next(), next()
		switch op {
		case 0:
			b.Add(base.KindDelete, first, nil)
		case 1, 2:
			b.Add(base.KindSet, first, second)
		case 3:
			b.DeleteRange(first, second)
		}
	}
	return b
}

// Parse and a model, which applies one entry after the other, agree about every key.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01a\x011\x03\x01a\x01c\x01\x01b\x012\x00\x01z\x00\x01\x01b\x013"))
	f.Add([]byte("\x03\x01c\x01a"))
	f.Add([]byte("\x03\x00\x00\x01\x00\x00\x03\x01a\x01a"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		b := opsBatch(ops)
		spans, own, err := Parse(base.Bytewise, b)
		values := map[string]*Entry{} // nil if a range deletes the key
		var ranges []Span
		for _, e := range b.All() {
			if e.Kind != batch.EntryDeleteRange {
				kind := base.KindSet
				if e.Kind == batch.EntryDelete {
					kind = base.KindDelete
				}
				values[string(e.Key)] = &Entry{Kind: kind, Key: e.Key, Value: e.Value}
				continue
			}
			if e.Key != nil && e.Value != nil && bytes.Compare(e.Key, e.Value) > 0 {
				require.Error(t, err, "a range that ends before it begins")
				return
			}
			ranges = append(ranges, Span{Start: e.Key, Limit: e.Value})
			for key := range values {
				if within(ranges[len(ranges)-1], []byte(key)) {
					delete(values, key)
				}
			}
		}
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(own, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) }))
		require.Len(t, own, len(values))
		for _, e := range own {
			want := values[string(e.Key)]
			require.NotNil(t, want)
			require.Equal(t, want.Kind, e.Kind)
			require.Equal(t, string(want.Value), string(e.Value))
		}
		for _, e := range b.All() {
			for _, key := range [][]byte{e.Key, e.Value, append(bytes.Clone(e.Key), 0)} {
				deleted := slices.ContainsFunc(ranges, func(a Span) bool { return within(a, key) })
				require.Equal(t, deleted, spans.Contains(key), "%q in %q", key, ranges)
			}
		}
	})
}

func within(a Span, key []byte) bool {
	return (a.Start == nil || bytes.Compare(key, a.Start) >= 0) && (a.Limit == nil || bytes.Compare(key, a.Limit) < 0)
}
