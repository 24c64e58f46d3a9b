package main

import (
	"bytes"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// newLeveled makes a closed database with tables on level 0 and the last one.
func newLeveled(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, &db.Options{})
	require.NoError(t, err)
	for round := range 3 {
		for i := range 2000 {
			require.NoError(t, store.Put([]byte("key"+strconv.Itoa(i*(round+1))), make([]byte, 100), db.NoSync))
		}
		require.NoError(t, store.Flush())
		if round == 0 {
			require.NoError(t, store.Compact(t.Context(), nil, nil))
		}
	}
	require.NoError(t, store.Close())
	return dir
}

func TestTheProgressOfACheckAndACompactionReachesItsEnd(t *testing.T) {
	dir := newLeveled(t)
	var read atomic.Uint64
	store, err := db.Open(dir, &db.Options{ReadOnly: true, FS: countingFS{files, &read}})
	require.NoError(t, err)
	part := checking(store, &read)
	require.Zero(t, part())
	_, err = store.Check(t.Context())
	require.NoError(t, err)
	require.Greater(t, part(), 0.8)
	require.NoError(t, store.Close())

	store, err = db.Open(dir, nil)
	require.NoError(t, err)
	part = compacting(store, &db.IterOptions{})
	require.Zero(t, part())
	require.NoError(t, store.Compact(t.Context(), nil, nil))
	require.Greater(t, part(), 0.8)
	require.NoError(t, store.Close())
}

func TestTheProgressOverEntriesIsThatOfTheirBytes(t *testing.T) {
	store, err := db.Open(newLeveled(t), &db.Options{ReadOnly: true})
	require.NoError(t, err)
	defer store.Close()
	a := &app{ctx: t.Context()}
	p := &progress{name: "exporting", unit: "entry"}
	p.part = passed(store, &db.IterOptions{}, p)
	var parts []float64
	require.NoError(t, a.each(store, &db.IterOptions{}, false, func(key, value []byte) (bool, error) {
		if p.entry(key, value); p.done%1000 == 0 {
			parts = append(parts, p.part())
		}
		return true, nil
	}))
	require.IsIncreasing(t, parts)
	require.Less(t, parts[0], 0.4)
	require.Greater(t, parts[len(parts)-1], 0.7)
}

// A line that was wider than the terminal wrapped, and each one stayed.
func TestProgressHasOneLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1e9, 0)
	p := &progress{w: &out, width: 20, name: "exporting", unit: "entry", began: now, now: func() time.Time { return now.Add(time.Minute) }}
	p.add(64, 1<<30)
	require.Equal(t, "\r\x1b[Kexporting: 64 entri", out.String())
}
