package db

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/vfs"
)

// If newer versions of a key were in one table and older ones in the next of the same level, a
// compaction could move the newer ones below the older ones (LevelDB issues 320 and 376).
func TestCompactionSplitsNoKeyBetweenTables(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Tables.Compression = NoCompression
	d := openTest(t, o)
	fill(t, d, 0, 300)
	const versions = 300
	for i := range versions { // a snapshot sees each of them, so compactions keep them all
		require.NoError(t, d.Put(testKey(150), testValue(i), NoSync))
		s := d.NewSnapshot()
		defer s.Close()
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	v := d.state().Version
	require.Empty(t, v.Levels[0].Files)
	for level := range v.Levels {
		files := v.Levels[level].Files
		for i := 1; i < len(files); i++ {
			require.Negative(t, d.cmp.Compare(base.UserKey(files[i-1].Largest), base.UserKey(files[i].Smallest)),
				"tables %d and %d of level %d share a key", files[i-1].Num, files[i].Num, level)
		}
	}
	require.Greater(t, v.NumFiles(), 3)
	require.Greater(t, d.Metrics().Total().Bytes, uint64((300+versions)*100), "the versions are kept")
}

// A tombstone that a compaction drops too early brings back the value below it
// (LevelDB issue 184).
func TestADeletedKeyStaysDeletedWhileADeeperLevelHoldsIt(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Tables.Compression, o.Compaction.L0Trigger = NoCompression, 100
	d := openTest(t, o)
	fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	base := d.state().Version.Shape(d.compactor.PickOptions()).BaseLevel
	require.Less(t, base, NumLevels-1)
	for range 2 { // two tables are merged, one would be moved
		require.NoError(t, d.Delete(testKey(7), NoSync))
		require.NoError(t, d.Put(testKey(8), testValue(8), NoSync))
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.compactor.CompactLevel(t.Context(), 0, nil, nil))
	require.Empty(t, d.state().Version.Levels[0].Files)
	require.NotEmpty(t, d.state().Version.Levels[base].Files)
	_, err := d.Get(testKey(7))
	require.Equal(t, ErrNotFound, err)
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	require.True(t, it.SeekGE(testKey(7)))
	require.Equal(t, string(testKey(8)), string(it.Key()))
}

// While a snapshot shows a deleted key, both the value and the tombstone stay.
func TestADeletedKeyStaysDeletedWhileASnapshotShowsIt(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put(testKey(7), testValue(7), NoSync))
	require.NoError(t, d.Put(testKey(8), testValue(8), NoSync))
	s := d.NewSnapshot()
	defer s.Close()
	require.NoError(t, d.Delete(testKey(7), NoSync))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err := d.Get(testKey(7))
	require.Equal(t, ErrNotFound, err)
	got, err := s.Get(testKey(7))
	require.NoError(t, err)
	require.Equal(t, string(testValue(7)), string(got))
}

// A retry would fail again and keep a processor and a disk busy for ever (basho/eleveldb issue 23).
func TestACompactionThatFindsCorruptionIsNotRetried(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Compaction.L0Trigger = 100
	d := mustOpen(t, o)
	for range 2 {
		fill(t, d, 0, 50)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	table := filepath.Join("db", namesOf(t, mem, base.FileTable)[0])
	data := readFile(t, mem, table)
	data[10] ^= 1
	writeFile(t, mem, table, data)

	var met atomic.Int64
	o = testOptions(mem)
	o.Compaction.L0Trigger = 2
	o.EventListener = &EventListener{CompactionEnd: func(i CompactionInfo) {
		if errors.Is(i.Err, ErrCorruption) {
			met.Add(1)
		}
	}}
	d = openTest(t, o)
	eventually(t, func() bool { return d.Metrics().BackgroundError != nil })
	for i := range 3 {
		fill(t, d, 100*i+100, 100*i+150)
		require.NoError(t, d.Flush())
		d.compactor.Schedule()
		d.compactor.WaitIdle()
	}
	require.EqualValues(t, 1, met.Load(), "compactions that found the damage")
	require.ErrorIs(t, d.Metrics().BackgroundError, ErrCorruption)
	requireValue(t, d, testKey(49), testValue(49)) // in the intact table with the same keys
	requireValue(t, d, testKey(120), testValue(120))
}

// A compaction of two tables may write one that spans both. A table that another compaction put
// between them meanwhile would overlap it.
func TestACompactionBetweenTheInputsOfAnotherWaits(t *testing.T) {
	o := &Options{
		FS: vfs.NewMem(), Tables: TableOptions{Size: 8 << 10, Compression: NoCompression},
		Compaction: CompactionOptions{MaxConcurrent: 2},
	}
	d := mustOpen(t, o)
	value := bytes.Repeat([]byte("v"), 10<<10)
	for _, key := range []string{"a", "z"} {
		require.NoError(t, d.Put([]byte(key), value, NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Len(t, d.state().Version.Levels[NumLevels-1].Files, 2)
	require.NoError(t, d.Close())

	o.Tables.Size = 1 << 20 // enough for both values in one table
	begun, proceed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(proceed) })
	hold := sync.OnceFunc(func() {
		close(begun)
		<-proceed
	})
	o.EventListener = &EventListener{CompactionBegin: func(CompactionInfo) { hold() }}
	d = openTest(t, o)
	defer release() // otherwise Close would wait
	spanning, between := make(chan error, 1), make(chan error, 1)
	go func() { spanning <- d.Compact(t.Context(), nil, nil) }()
	<-begun
	key := []byte("m")
	require.NoError(t, d.Put(key, value, NoSync))
	require.NoError(t, d.Flush())
	v := d.state().Version
	c, busy := v.PickFiles(0, NumLevels-1, v.Overlapping(0, key, key), compact.ManualStep, d.compactor.PickOptions())
	require.Nil(t, c)
	require.True(t, busy)
	go func() { between <- d.Compact(t.Context(), key, append(key[:1:1], 0)) }()
	release()
	require.NoError(t, <-spanning)
	require.NoError(t, <-between)
	for _, key := range []string{"a", "m", "z"} {
		requireValue(t, d, []byte(key), value)
	}
}

// elsewhere calls f in another goroutine and waits for it. A listener may do that if f does not
// depend on the listener's caller.
func elsewhere(f func()) {
	var g sync.WaitGroup
	g.Go(f)
	g.Wait()
}

// Whenever Compact begins a compaction, the listener adds a table with a key after all others to the
// level that is compacted.
func TestCompactEndsAlthoughWritesContinue(t *testing.T) {
	const most = 200
	var d *DB
	written := most
	o := testOptions(vfs.NewMem())
	o.Tables.Compression, o.Compaction.L0Trigger, o.Compaction.MaxConcurrent = NoCompression, 1000, 2
	o.EventListener = &EventListener{CompactionBegin: func(i CompactionInfo) {
		if written >= most {
			return
		}
		written++
		key := testKey(5000 + written)
		elsewhere(func() {
			require.NoError(t, d.Put(key, key, NoSync))
			require.NoError(t, d.Flush())
		})
		if i.InputLevel > 0 {
			at := written
			written = most // so that the listener ignores its own compaction
			require.NoError(t, d.compactor.CompactLevel(t.Context(), 0, key, nil))
			written = at
		}
	}}
	d = openTest(t, o)
	fill(t, d, 0, 2000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	hold := d.compactor.HoldBackground() // no background compactions
	defer hold()
	for range 2 {
		fill(t, d, 0, 500)
		require.NoError(t, d.Flush())
	}
	written = 0
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NotZero(t, written)
	require.Less(t, written, most)
	for i := range written {
		requireValue(t, d, testKey(5001+i), testKey(5001+i))
	}
}
