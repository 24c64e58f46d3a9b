package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
	"github.com/stretchr/testify/require"
)

// smallStore writes keys to two levels of a database on disk and returns its folder and tables.
func smallStore(t *testing.T, keys [][]byte) (dir string, tables []db.TableInfo, last int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	put := func(from, step int) {
		for i := from; i < len(keys); i += step {
			require.NoError(t, store.Put(keys[i], bytes.Repeat(keys[i], 8), db.NoSync))
		}
		require.NoError(t, store.Flush())
	}
	put(0, 1)
	require.NoError(t, store.Compact(t.Context(), nil, nil))
	put(0, 7)
	tables, last, err = storeTables(store)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	return dir, tables, last
}

func TestLayoutsHaveTheSameDataAndOtherFilters(t *testing.T) {
	stored, absent := randomKeys(t, 4000)
	dir, tables, last := smallStore(t, stored)
	levels := map[int]int{}
	for _, table := range tables {
		levels[table.Level]++
	}
	for i := range peerLayouts {
		l := &peerLayouts[i]
		t.Run(l.name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), l.name)
			require.NoError(t, writeLayout(vfs.OS, dir, to, tables, last, l))
			o := &db.Options{ReadOnly: true}
			o.Filters.Policy = l.policy
			store, err := db.Open(to, o)
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()
			copies, copiedLast, err := storeTables(store)
			require.NoError(t, err)
			require.Equal(t, last, copiedLast)
			for _, table := range copies {
				levels[table.Level]--
				require.Equal(t, l.name == "pebble" && table.Level == last, table.FilterBytes == 0, "%+v", table)
			}
			for level, n := range levels {
				require.Zero(t, n, "level %d", level)
			}
			for _, table := range tables {
				levels[table.Level]++
			}
			for _, key := range stored {
				value, err := store.Get(key)
				require.NoError(t, err)
				require.Equal(t, bytes.Repeat(key, 8), value)
			}
			for _, key := range absent {
				_, err := store.Get(key)
				require.ErrorIs(t, err, db.ErrNotFound)
			}
		})
	}
}

// The copy has a filter for each 2 KiB of data blocks, as LevelDB's: the last byte and the number of offsets.
func TestLevelDBsLayoutHasAFilterForEach2KiB(t *testing.T) {
	stored, _ := randomKeys(t, 4000)
	dir, tables, last := smallStore(t, stored)
	path := filepath.Join(dir, tables[len(tables)-1].Name)
	require.Equal(t, last, tables[len(tables)-1].Level)
	f, err := vfs.OS.Open(path)
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{Name: path})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	block, err := perBlockFilters(r, filter.NewBloomPolicy(peerBits))
	require.NoError(t, err)
	it, err := r.NewIter(sstable.IterOptions{})
	require.NoError(t, err)
	require.True(t, it.Last())
	filters := int(it.BlockOffset()>>11) + 1
	require.NoError(t, it.Close())
	require.EqualValues(t, 11, block[len(block)-1])
	arrayAt := len(block) - 5 - 4*filters
	require.EqualValues(t, arrayAt, uint32(block[len(block)-5])|uint32(block[len(block)-4])<<8|uint32(block[len(block)-3])<<16)
	require.Greater(t, filters, 50)
	require.InDelta(t, 10.0*float64(len(stored))/8, float64(arrayAt), 2*float64(filters), "ten bits per key, and a byte and padding per filter")
}

func TestATableWithoutAFooterIsRefused(t *testing.T) {
	_, err := withFilterBlock(bytes.Repeat([]byte{0xff}, 48), "filter.x", nil)
	require.ErrorContains(t, err, "the footer does not have two handles")
}

// randomKeys returns n stored keys and n absent keys, each in ascending order.
func randomKeys(t *testing.T, n int) (stored, absent [][]byte) {
	const seed = 1
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2 * n {
		key := binary.LittleEndian.AppendUint64(nil, rng.Uint64())
		stored = append(stored, binary.LittleEndian.AppendUint64(key, rng.Uint64()))
	}
	stored, absent = stored[:n], stored[n:]
	slices.SortFunc(stored, bytes.Compare)
	slices.SortFunc(absent, bytes.Compare)
	return stored, absent
}
