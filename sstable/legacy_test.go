package sstable

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// goleveldb has filters like bloom's under the old name.
type goleveldb struct{ filter.BloomPolicy }

func (goleveldb) Name() string { return filter.LegacyBloom.Name() }

// countingPolicy counts how often keys are hashed.
type countingPolicy struct {
	filter.DirectPolicy
	hashes, keys *int
}

func (p countingPolicy) KeyHash(key []byte) uint64 {
	*p.hashes++
	return p.DirectPolicy.KeyHash(key)
}

func (p countingPolicy) KeyMayMatch(key, f []byte) bool {
	*p.keys++
	return p.DirectPolicy.KeyMayMatch(key, f)
}

func TestALookupHashesItsKeyOnceForPerBlockFilters(t *testing.T) {
	var hashes, keys int
	for _, inner := range []filter.Policy{bloom, filter.LegacyBloom} {
		p := countingPolicy{inner.(filter.DirectPolicy), &hashes, &keys}
		es := plainEntries(1000, 60)
		var tables []*Reader
		for range 5 {
			r, _ := openTable(t, buildPerBlock(t, inner, es, 1024, 11), ReaderOptions{Policies: []filter.Policy{p}, Cache: newCache()})
			require.Equal(t, FilterPerBlock, r.FilterStatus().State)
			tables = append(tables, r)
		}
		tables = append(tables, func() *Reader {
			r, _ := openTable(t, buildTable(t, WriterOptions{Filter: inner}, es), ReaderOptions{Policies: []filter.Policy{p}})
			return r
		}())
		lookup := func(user []byte) {
			var lk Lookup
			lk.Init(user, base.MaxSeq)
			for _, r := range tables {
				res, err := r.Get(&lk)
				if err != nil || res.Filter == FilterNone {
					t.Fatal(res, err)
				}
			}
		}
		for i := range 1000 {
			hashes, keys = 0, 0
			lookup(fmt.Appendf(nil, "key%08d", i))
			require.Equal(t, 1, hashes)
			require.Zero(t, keys)
		}
		tables = tables[:5] // those with a cache
		user := []byte("key00000500")
		requireAllocs(t, 0, 100, func() { lookup(user) })
	}
}

// hashOnly hides that a policy can probe filters directly.
type hashOnly struct{ filter.HashPolicy }

func TestAHashPolicyWithoutDirectProbesWorks(t *testing.T) {
	es := plainEntries(500, 60)
	r, _ := openTable(t, buildPerBlock(t, bloom, es, 1024, 11), ReaderOptions{Policies: []filter.Policy{hashOnly{bloom}}})
	require.Greater(t, negatives(t, r, es), 400)
}

// negatives looks up 500 plain entries and the absent keys between them, and returns how many the filter denies.
func negatives(t *testing.T, r *Reader, es entries) (denied int) {
	t.Helper()
	for i := range 999 {
		user := fmt.Appendf(nil, "key%08d", i)
		checkGet(t, r, base.Bytewise, es, user, base.MaxSeq)
		if res, err := get(r, string(user), base.MaxSeq); err == nil && res.Filter == FilterNegative {
			denied++
		}
	}
	return denied
}

func TestAFilterCanBeListedUnderTwoNames(t *testing.T) {
	es := plainEntries(500, 60)
	old := filter.LegacyBloom
	alias := map[string]string{bloom.Name(): old.Name()}
	table := buildTable(t, WriterOptions{Filter: bloom, FilterAliases: alias}, es)
	for _, c := range []struct {
		name     string
		policies []filter.Policy
		want     string
	}{
		{"the reader's order decides, the unambiguous name first", []filter.Policy{bloom, old}, bloom.Name()},
		{"a reader that knows only the new name finds it", []filter.Policy{bloom}, bloom.Name()},
		{"a reader that knows only the old name finds it", []filter.Policy{old}, old.Name()},
		{"goleveldb finds it and uses its own hash", []filter.Policy{goleveldb{}}, old.Name()},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := openTable(t, table, ReaderOptions{Policies: c.policies})
			require.Equal(t, FilterStatus{State: FilterWholeTable, Policy: c.want}, r.FilterStatus())
			require.Greater(t, negatives(t, r, es), 400)
		})
	}

	_, names := withMetaindex(t, table, func(key string) string { return key })
	require.Equal(t, []string{"filter.leveldb.BuiltinBloomFilter", "filter.leveldb.BuiltinBloomFilter2", "filter.sievedb.properties"}, names,
		"LevelDB searches the metaindex: it must be sorted")
	handles := filterHandles(t, table)
	require.Equal(t, handles[old.Name()], handles[bloom.Name()], "one block under both names")

	for name, o := range map[string]WriterOptions{
		"its own name":         {Filter: bloom, FilterAliases: map[string]string{bloom.Name(): bloom.Name()}},
		"a table without":      {FilterAliases: alias},
		"of another filter":    {Filter: bloom, FilterAliases: map[string]string{"test.Const": old.Name()}},
		"of no name":           {Filter: bloom, FilterAliases: map[string]string{bloom.Name(): ""}},
		"filters switched off": {Filter: filter.None, FilterAliases: alias},
	} {
		t.Run(name, func(t *testing.T) {
			plain := WriterOptions{Filter: o.Filter}
			require.Equal(t, buildTable(t, plain, es), buildTable(t, o, es), "the alias changes nothing")
		})
	}
}
