package sstable

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// withMetaindex returns the table with the keys of its metaindex renamed, and the keys.
func withMetaindex(t *testing.T, data []byte, rename func(key string) string) (table []byte, keys []string) {
	t.Helper()
	r, _ := openTable(t, data, ReaderOptions{})
	old := result.Of(r.readBlock(r.foot.Metaindex, "metaindex block"))(t)
	b := result.Of(newBlock(old, "metaindex block"))(t)
	meta := metaEntries{}
	require.NoError(t, b.eachEntry("metaindex block", func(key, value []byte) error {
		keys = append(keys, string(key))
		meta[rename(string(key))] = append([]byte(nil), value...)
		return nil
	}))
	table = append(table, data[:r.foot.Metaindex.Offset]...)
	var foot footer
	table, foot.Metaindex = appendStored(table, meta.block(), NoCompression)
	index := result.Of(r.readBlock(r.foot.Index, indexPart))(t)
	table, foot.Index = appendStored(table, index, NoCompression)
	return foot.Append(table), keys
}

// RocksDB's sst_dump --command=verify aborted at the keys "sievedb.properties" and
// "rangefilter.…" of the metaindex. Tables that have them can still be read.
func TestAllMetaindexNamesBeginLikeFilters(t *testing.T) {
	es := plainEntries(500, 20)
	data := buildTable(t, WriterOptions{Filter: dual, RangeFilters: []rangefilter.Policy{ofTen}}, es)
	renamed, keys := withMetaindex(t, data, func(key string) string {
		switch {
		case key == propertiesKey:
			return oldPropertiesKey
		case strings.HasPrefix(key, rangeKeyPrefix):
			return oldRangeKeyPrefix + strings.TrimPrefix(key, rangeKeyPrefix)
		}
		return key
	})
	require.Len(t, keys, 4)
	require.IsIncreasing(t, keys)
	for _, key := range keys {
		require.True(t, strings.HasPrefix(key, "filter."), key)
	}
	for name, table := range map[string][]byte{"new": data, "old": renamed} {
		t.Run(name, func(t *testing.T) {
			r, _ := openTable(t, table, ReaderOptions{
				Policies: filter.Kinds(dual), RangePolicies: []rangefilter.Policy{ofTen},
				Smallest: es[0].Key, Largest: es[len(es)-1].Key,
			})
			require.True(t, r.marks.marked)
			require.Equal(t, FilterWholeTable, r.FilterStatus().State)
			p, ok := r.Properties()
			require.True(t, ok)
			require.EqualValues(t, len(es), p.Entries)
			set := result.Of(r.AllFilters())(t)
			require.Equal(t, 2, set.Listed())
			require.True(t, set.HasRanges([]rangefilter.Policy{ofTen}))
		})
	}
	t.Run("without a known policy", func(t *testing.T) {
		without := buildTable(t, WriterOptions{RangeFilters: []rangefilter.Policy{ofTen}}, es)
		r, _ := openTable(t, without, ReaderOptions{Policies: filter.Kinds(dual)})
		require.Equal(t, FilterStatus{State: FilterMissing}, r.FilterStatus(), "other blocks are not unknown filters")
	})
}

func TestReservedNamesAreNotFilterPolicies(t *testing.T) {
	for name, reserved := range map[string]bool{
		"sievedb.properties": true, "sievedb.range.": true, "sievedb.range.x": true, "sievedb.properties2": false, "sievedb.range": false, "": false,
	} {
		p := filter.Policy(renamedPolicy{constPolicy{answer: true}, name})
		err := CheckFilterNames([]filter.Policy{p, nil})
		require.Equal(t, reserved, err != nil, "%q", name)
		w := NewWriter(new(strings.Builder), WriterOptions{Filter: p})
		require.NoError(t, w.Add(ikey("k", 1, base.KindSet), nil))
		_, err = w.Finish()
		require.Equal(t, reserved, err != nil, "%q", name)
	}
}
