package sstable

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

func exampleEntries() entries {
	return entries{
		{Key: ikey("ant", 3, base.KindSet), Value: []byte("6")},
		{Key: ikey("ant", 1, base.KindSet), Value: []byte("six")},
		{Key: ikey("bee", 2, base.KindDelete)},
	}
}

func TestWorkedExample(t *testing.T) {
	es := exampleEntries()
	got := buildTable(t, WriterOptions{Filter: bloom, BlockRestartInterval: 2}, es)

	t.Run("the annotated table is what the writer writes", func(t *testing.T) {
		require.Equal(t, hex.Dump(hexFile(t, "three_entries.hex")), hex.Dump(got))
	})

	t.Run("it reads back", func(t *testing.T) {
		r, _ := openTable(t, bytes.Clone(got), ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()})
		for seq := uint64(0); seq < 5; seq++ {
			for _, user := range []string{"ant", "bee", "cat"} {
				checkGet(t, r, base.Bytewise, es, []byte(user), seq)
			}
		}
	})
}

func TestEmptyTableIsLegal(t *testing.T) {
	for _, p := range []filter.Policy{nil, bloom} {
		data := buildTable(t, WriterOptions{Filter: p}, nil)
		r, _ := openTable(t, data, ReaderOptions{Policies: []filter.Policy{p}, Cache: newCache()})
		checkGet(t, r, base.Bytewise, nil, nil, base.MaxSeq)
		off, err := r.ApproximateOffset(ikey("a", 1, base.KindSet))
		require.NoError(t, err)
		require.Zero(t, off)
		props, ok := r.Properties()
		require.True(t, ok)
		require.Equal(t, Properties{}, props)
	}
}
