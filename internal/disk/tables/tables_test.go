package tables

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// shelf is a directory with tables, and the means to read and write them.
type shelf struct {
	dir    Directory
	cache  *Cache
	spares *SpareWriters
	next   uint64
}

func newShelf(t *testing.T, maxOpen int) *shelf {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("dir"))
	s := &shelf{dir: Directory{FS: mem, Path: "dir", Logger: slog.New(slog.DiscardHandler)}, spares: NewSpareWriters(1, 1<<20)}
	s.cache = NewCache(CacheOptions{
		FS: mem, Dir: "dir", MaxOpen: maxOpen, WantSizes: true,
		Reader: sstable.ReaderOptions{Comparer: base.Bytewise, Policies: []filter.Policy{filter.NewBloomPolicy(10)}},
	})
	t.Cleanup(s.cache.Close)
	return s
}

func (s *shelf) writer() *Writer {
	return NewWriter(WriterOptions{
		Dir: s.dir, Kind: base.FileTable, Spares: s.spares,
		NewFileNum: func() uint64 { s.next++; return s.next },
		Table:      sstable.WriterOptions{Comparer: base.Bytewise, Filter: filter.NewBloomPolicy(10)},
	})
}

// write writes entries to tables with that many entries each.
func (s *shelf) write(t *testing.T, entries []itertest.Entry, perTable int) []*version.FileMeta {
	w := s.writer()
	for i, e := range entries {
		if i > 0 && i%perTable == 0 {
			require.NoError(t, w.EndTable())
		}
		require.NoError(t, w.Add(e.Key, e.Value))
	}
	files := result.Of(w.Finish())(t)
	return files
}

func numbered(from, to, step int) (entries []itertest.Entry) {
	for i := from; i < to; i += step {
		key := []byte{'k', byte(i >> 8), byte(i)}
		entries = append(entries, itertest.Entry{Key: base.AppendInternalKey(nil, key, uint64(i+1), base.KindSet), Value: key})
	}
	return entries
}

func TestLevelIterReturnsAllEntries(t *testing.T) {
	s := newShelf(t, 3) // fewer than the tables
	entries := numbered(0, 1000, 1)
	files := s.write(t, entries, 100)
	require.Len(t, files, 10)
	itertest.Run(t, base.Bytewise, entries, 1, func() base.Iterator {
		return NewLevelIter(s.cache, base.Bytewise, files, sstable.IterOptions{})
	})
}

// The options of an iterator are in memory that it shares with others, or that its maker uses again.
func TestAClosedLevelIterDoesNotMove(t *testing.T) {
	s := newShelf(t, 3)
	files := s.write(t, numbered(0, 100, 1), 30)
	options := sstable.IterOptions{Lower: []byte("k")}
	var l LevelIter
	for range 2 { // it can be used again
		l.Init(s.cache, base.Bytewise, files, &options)
		require.True(t, l.First())
		require.NoError(t, l.Close())
	}
	options.Lower = []byte("z")
	target := base.AppendInternalKey(nil, []byte("k"), base.MaxSeq, base.KindSeek)
	require.False(t, l.First() || l.Last() || l.SeekGE(target) || l.SeekLT(target))
	require.NoError(t, l.Err())

	made := testing.AllocsPerRun(10, func() {
		l := NewLevelIter(s.cache, base.Bytewise, files, sstable.IterOptions{})
		require.NoError(t, l.Close())
	})
	require.LessOrEqual(t, made, 1.0, "the options are part of it")
}

func TestMergedRunsAreInOrder(t *testing.T) {
	s := newShelf(t, 100)
	var runs [3][]*version.FileMeta
	for i := range runs {
		runs[i] = s.write(t, numbered(i, 900, 3), 70)
	}
	itertest.Run(t, base.Bytewise, numbered(0, 900, 1), 2, func() base.Iterator {
		var children []base.Iterator
		for _, files := range runs {
			children = append(children, NewLevelIter(s.cache, base.Bytewise, files, sstable.IterOptions{}))
		}
		return NewMergingIter(base.Bytewise, children)
	})
}

// mergeOfTwins returns a strict merge of ten keys, of which one has two values.
func mergeOfTwins(t *testing.T) *MergingIter {
	s := newShelf(t, 100)
	a, b := numbered(0, 10, 1), numbered(5, 6, 1)
	b[0].Value = []byte("another")
	it := new(MergingIter)
	for _, entries := range [][]itertest.Entry{a, b} {
		it.Add(NewLevelIter(s.cache, base.Bytewise, s.write(t, entries, 100), sstable.IterOptions{}))
	}
	it.Init(base.Bytewise)
	it.SetStrict()
	return it
}

func TestAStrictMergeRejectsDifferingTwins(t *testing.T) {
	it := mergeOfTwins(t)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	require.LessOrEqual(t, n, 6)
	require.ErrorIs(t, it.Err(), base.ErrCorruption)
	require.False(t, it.Next(), "also without a look at the last result")
	require.False(t, it.Prev())
	require.ErrorIs(t, it.Close(), base.ErrCorruption)
}

// A step to another key that meets differing twins moves the iterator to its end: the caller, which
// takes that for a step that was not possible, calls Next.
func TestNextAfterNextDistinctHasFailed(t *testing.T) {
	it := mergeOfTwins(t)
	require.True(t, it.First() && it.Next())
	quick := 0
	for it.NextDistinct() {
		quick++
	}
	require.NotZero(t, quick)
	require.ErrorIs(t, it.Err(), base.ErrCorruption)
	require.False(t, it.Next())
	require.False(t, it.NextDistinct())
	require.ErrorIs(t, it.Close(), base.ErrCorruption)
}

func TestTheCacheKeepsAtMostMaxOpenTables(t *testing.T) {
	s := newShelf(t, 4)
	files := s.write(t, numbered(0, 1000, 1), 100)
	for range 50 {
		f := files[rand.IntN(len(files))]
		r := result.Of(s.cache.Ref(f))(t)
		require.Equal(t, r, Of(f).Peek())
		r.Unref()
		open := 0
		for _, f := range files {
			if Of(f).Peek() != nil {
				open++
			}
		}
		require.LessOrEqual(t, open, 4)
	}
	tables, reads, bytes := s.cache.Openings()
	require.GreaterOrEqual(t, tables, uint64(4))
	require.GreaterOrEqual(t, reads, tables)
	require.NotZero(t, bytes)
	s.cache.Close()
	require.ErrorIs(t, result.Err(s.cache.Ref(files[0])), base.ErrClosed)
}

func TestATableOfTheWrongSizeIsCorrupt(t *testing.T) {
	s := newShelf(t, 4)
	f := s.write(t, numbered(0, 10, 1), 100)[0]
	shorter := version.NewFileMeta(f.Num, f.Size-1, f.Smallest, f.Largest)
	shorter.Handle = NewHandle()
	_, err := s.cache.Ref(shorter)
	require.ErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "000001.ldb")
}

func TestFilterSizesOfANewTableAreKnownWithoutOpeningIt(t *testing.T) {
	s := newShelf(t, 4)
	f := s.write(t, numbered(0, 100, 1), 100)[0]
	require.Nil(t, Of(f).Peek())
	written := *Of(f).FilterSizes()
	require.EqualValues(t, 100, written.Keys)
	fresh := version.NewFileMeta(f.Num, f.Size, f.Smallest, f.Largest)
	fresh.Handle = NewHandle()
	require.Nil(t, Of(fresh).FilterSizes())
	require.NoError(t, s.cache.OpenWhole(fresh))
	opened := *Of(fresh).FilterSizes()
	require.Equal(t, written.Keys, opened.Keys, "the same as after opening it")
	require.InDelta(t, float64(written.FilterBytes), float64(opened.FilterBytes), sstable.FilterEnvelopeLen)
	require.True(t, Of(fresh).ReportFilter())
	require.False(t, Of(fresh).ReportFilter(), "once")
}

func TestAnAbandonedWriterLeavesNoFile(t *testing.T) {
	s := newShelf(t, 4)
	w := s.writer()
	for i, e := range numbered(0, 300, 1) {
		if i%100 == 50 {
			require.NoError(t, w.EndTable())
		}
		require.NoError(t, w.Add(e.Key, e.Value))
	}
	w.Abandon()
	require.Empty(t, result.Of(s.dir.FS.List("dir"))(t))
}

func TestObsoleteTablesAreClosedAndRemoved(t *testing.T) {
	s := newShelf(t, 4)
	files := s.write(t, numbered(0, 200, 1), 100)
	require.NoError(t, s.cache.OpenWhole(files[0]))
	var removed []uint64
	o := NewObsolete(s.dir, s.cache, func(num uint64) { removed = append(removed, num) })
	o.Add([]version.LevelFile{{Level: 1, File: files[0]}})
	require.Equal(t, 1, o.Count())
	o.Remove()
	require.Zero(t, o.Count())
	require.Equal(t, []uint64{files[0].Num}, removed)
	require.Nil(t, Of(files[0]).Peek())
	names := result.Of(s.dir.FS.List("dir"))(t)
	require.Equal(t, []string{files[1].Name()}, names)
}

// The bug: two goroutines removed the inputs of two compactions at once, and of a process that was killed then an older
// entry was left, and not the newer one. After another program's repair it hid the entry with sequence number 0.
func TestOlderTablesAreRemovedFirst(t *testing.T) {
	s := newShelf(t, 4)
	files := s.write(t, numbered(0, 400, 1), 100)
	begun, slow := make(chan struct{}), make(chan struct{})
	s.dir.FS = wrap.NewFaulty(s.dir.FS, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRemove && filepath.Base(op.Name) == files[0].Name() {
			close(begun)
			<-slow
		}
		return nil
	})
	add := func(o *Obsolete, files ...*version.FileMeta) {
		for _, f := range files {
			o.Add([]version.LevelFile{{Level: 1, File: f}})
		}
		<-o.kick
	}
	var removed []uint64
	o := NewObsolete(s.dir, s.cache, func(num uint64) { removed = append(removed, num) })
	add(o, files[:2]...)
	var first sync.WaitGroup
	first.Go(o.Remove)
	<-begun
	add(o, files[2:]...)
	o.Remove() // it does not wait
	require.Equal(t, 2, o.Count())
	close(slow)
	first.Wait()
	require.Equal(t, []uint64{files[0].Num, files[1].Num}, removed, "those that waited when it began")
	<-o.kick // Run is woken for the others
	o.Remove()
	require.Equal(t, []uint64{files[0].Num, files[1].Num, files[2].Num, files[3].Num}, removed)
}

// The cache closes while a table is about to be opened, and who opens the directory next removes the table.
func TestATableThatIsGoneAfterClose(t *testing.T) {
	s := newShelf(t, 4)
	file := s.write(t, numbered(0, 10, 1), 100)[0]
	s.cache.options.FS = wrap.NewFaulty(s.dir.FS, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen {
			s.cache.Close()
			require.NoError(t, s.dir.FS.Remove(op.Name))
		}
		return nil
	})
	require.ErrorIs(t, result.Err(s.cache.Get(file)), base.ErrClosed)
}

// What a reader has in memory can be used after Close, and reads from disk are ErrClosed as it is, since it is no fault
// of the table.
func TestCloseClosesTheFilesOfTablesWithReferences(t *testing.T) {
	s := newShelf(t, 1)
	counting := wrap.NewCounting(s.dir.FS)
	s.cache.options.FS = counting
	files := s.write(t, numbered(0, 1000, 1), 500)
	iters := make([]*LevelIter, len(files))
	for i := range files {
		iters[i] = NewLevelIter(s.cache, base.Bytewise, files[i:i+1], sstable.IterOptions{})
		require.True(t, iters[i].First())
	}
	r := result.Of(s.cache.Ref(files[1]))(t)
	require.EqualValues(t, 2, counting.Snapshot().Total.OpenFiles, "the one beyond MaxOpen has a reference")
	require.Len(t, s.cache.readers.open, 2)
	s.cache.Close()
	require.Zero(t, counting.Snapshot().Total.OpenFiles)
	r.CloseFile()
	for _, it := range iters {
		key := append([]byte(nil), it.Key()...)
		require.True(t, it.Next(), "the block is in memory")
		require.NotEqual(t, key, it.Key())
		for it.Next() {
		}
		require.Equal(t, base.ErrClosed, it.Err())
		require.Equal(t, base.ErrClosed, it.Close())
	}
	r.Unref()
	require.Zero(t, counting.Snapshot().Total.OpenFiles, "a file is closed once")
}

func TestATableThatIsBeingOpenedDuringCloseIsClosed(t *testing.T) {
	s := newShelf(t, 4)
	file := s.write(t, numbered(0, 10, 1), 100)[0]
	counting := wrap.NewCounting(s.dir.FS)
	s.cache.options.FS = wrap.NewFaulty(counting, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRead {
			s.cache.Close()
		}
		return nil
	})
	require.ErrorIs(t, result.Err(s.cache.Get(file)), base.ErrClosed)
	require.Zero(t, counting.Snapshot().Total.OpenFiles)
	require.Empty(t, s.cache.readers.open)
}

func TestReadersThatLeaveTheCacheAreForgotten(t *testing.T) {
	s := newShelf(t, 1)
	files := s.write(t, numbered(0, 1000, 1), 100)
	for range 3 {
		for _, f := range files {
			r := result.Of(s.cache.Ref(f))(t)
			r.Unref()
		}
	}
	require.Len(t, s.cache.readers.open, 1)
	s.cache.Drop(files[len(files)-1])
	require.Empty(t, s.cache.readers.open)
}

// The reading would be one more each time that a value table is opened again.
func TestIDsOfAValueTableAreReadOnce(t *testing.T) {
	s := newShelf(t, 1)
	w := s.writer().ForValues(nil)
	for _, e := range numbered(0, 100, 1) {
		require.NoError(t, w.Add(e.Key, e.Value))
	}
	files := result.Of(w.Finish())(t)
	other := s.write(t, numbered(0, 10, 1), 10)[0]
	reads := func() (n uint64) {
		counting := wrap.NewCounting(s.dir.FS)
		s.cache.options.FS = counting
		require.NoError(t, result.Err(s.cache.Get(files[0])))
		n = counting.Snapshot().Total.Reads
		require.NoError(t, result.Err(s.cache.Get(other)))
		return n
	}
	require.Equal(t, reads()-1, reads())
}

// There was memory for each of the seven levels, which is much for programs with thousands of iterators.
func TestRunsHaveNoMemoryForEmptyLevels(t *testing.T) {
	s := newShelf(t, 3)
	v := &version.Version{Cmp: base.Bytewise}
	for level, n := range map[int]int{0: 2, 6: 3} {
		v.Levels[level].Files = s.write(t, numbered(100*level, 100*level+30*n, 1), 30)
	}
	var r Runs
	var m MergingIter
	r.Add(&m, s.cache, v, &RunOptions{Ranges: noRanges{}})
	require.Equal(t, 3, cap(r.levels))
	require.LessOrEqual(t, unsafe.Sizeof(r.levels[0]), uintptr(672), "bytes of a run")
	require.Len(t, m.runs, 3)
}

type noRanges struct{}

func (noRanges) ForBounds(int, []byte, []byte) *RangeCounters { return nil }

// The bug: what a table refers to became known after it was weighed, and it was weighed again.
func TestCountsThatAreLearntKeepTheGain(t *testing.T) {
	s := newShelf(t, 3)
	f := s.write(t, numbered(0, 10, 1), 10)[0]
	read := version.NewFileMeta(f.Num, f.Size, f.Smallest, f.Largest)
	read.Handle = NewHandle()
	read.SetGain(&version.Gain{All: 7})
	s.cache.LearnCounts(read)
	require.Equal(t, uint64(10), read.Counts().Entries)
	require.Equal(t, &version.Gain{All: 7}, read.Gain())
}

func TestTablesDisplaceOnlyBlocksThatMemoryHasNoRoomFor(t *testing.T) {
	blocks := sstable.NewBlockCache(1000)
	c := NewCache(CacheOptions{MaxOpen: 10, Reader: sstable.ReaderOptions{Cache: blocks}})
	defer c.Close()
	c.memory.Add(10)
	require.Zero(t, blocks.Metrics().Charged, "nothing was said")
	c.SetBeside(500, 800)
	c.memory.Add(390)
	require.Zero(t, blocks.Metrics().Charged, "beside the blocks")
	c.memory.Add(400)
	require.EqualValues(t, 300, blocks.Metrics().Charged)
	c.memory.Add(4000)
	require.EqualValues(t, 800, blocks.Metrics().Charged, "the blocks keep the rest")
	c.SetBeside(0, -1)
	require.EqualValues(t, 4800, blocks.Metrics().Charged)
	c.memory.Add(-4800)
	require.Zero(t, blocks.Metrics().Charged)
}

// The tables of a store that its owner lost without closing it are freed, as everything else that nobody refers to.
func TestTheTablesOfACacheThatWasLostAreFreed(t *testing.T) {
	lost := func() weak.Pointer[sstable.Reader] {
		s := newShelf(t, 10)
		f := s.write(t, numbered(0, 10, 1), 10)[0]
		c := NewCache(CacheOptions{FS: s.dir.FS, Dir: s.dir.Path, MaxOpen: 10, Reader: s.cache.options.Reader})
		r := result.Of(c.Get(f))(t)
		return weak.Make(r)
	}()
	require.Eventually(t, func() bool { runtime.GC(); return lost.Value() == nil }, 10*time.Second, 10*time.Millisecond)
}

func TestApproximateSizeIsThatOfTheRangesBlocks(t *testing.T) {
	s := newShelf(t, 3)
	f := s.write(t, numbered(0, 4000, 1), 4000)[0]
	key := func(i int) []byte { return []byte{'k', byte(i >> 8), byte(i)} }
	size := func(start, limit []byte) uint64 {
		n := result.Of(s.cache.ApproximateSize(f, start, limit))(t)
		return n
	}
	require.Equal(t, f.Size, size(nil, nil))
	require.Equal(t, f.Size, size(base.UserKey(f.Smallest), nil))
	require.Zero(t, size(nil, base.UserKey(f.Smallest)), "the limit is excluded")
	require.Zero(t, size(key(4000), nil))
	require.Nil(t, Of(f).Peek(), "none of these calls opened the table")
	require.InEpsilon(t, f.Size/2, size(key(1000), key(3000)), 0.2)
	require.Zero(t, size(key(3000), key(1000)))
}

// A table's index ends with a separator above the last key. A limit between the two made the last block count as 0
// bytes, and so a table of one block.
func TestALimitBehindTheLastKeyCountsTheLastBlock(t *testing.T) {
	s := newShelf(t, 3)
	for _, keys := range []int{2, 4000} {
		f := s.write(t, numbered(0, keys, 1), keys)[0]
		last := base.UserKey(f.Largest)
		behind := append(bytes.Clone(last), 0)
		for _, limit := range [][]byte{behind, append(bytes.Clone(last), 0xff), []byte("z"), nil} {
			n := result.Of(s.cache.ApproximateSize(f, last, limit))(t)
			require.Positive(t, n, "%d keys, limit %x", keys, limit)
		}
		before := result.Of(s.cache.ApproximateSize(f, nil, last))(t)
		after := result.Of(s.cache.ApproximateSize(f, last, behind))(t)
		require.Equal(t, f.Size, before+after)
	}
}
