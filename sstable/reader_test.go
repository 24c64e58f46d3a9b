package sstable

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

func openBare(t *testing.T, es entries) (*Reader, *memFile) {
	f := &memFile{data: buildTable(t, WriterOptions{Filter: bloom}, es)}
	r := result.Of(Open(f, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache()}))(t)
	return r, f
}

func TestAClosedReaderReadsOnlyFromMemory(t *testing.T) {
	es := plainEntries(1000, 100)
	r, f := openBare(t, es)
	checkGet(t, r, base.Bytewise, es, base.UserKey(es[0].Key), base.MaxSeq)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "Close may be called more than once")
	require.Equal(t, 1, f.closed)

	checkGet(t, r, base.Bytewise, es, base.UserKey(es[0].Key), base.MaxSeq)
	checkGet(t, r, base.Bytewise, es, []byte("absent"), base.MaxSeq)
	require.ErrorIs(t, result.Err(get(r, string(base.UserKey(es[999].Key)), base.MaxSeq)), ErrReaderClosed)
	require.ErrorIs(t, result.Err(r.NewIter(IterOptions{})), ErrReaderClosed)
	require.False(t, r.Ref())
	_, ok := r.Properties()
	require.True(t, ok, "Open read the properties")

	unread, f := openBare(t, es)
	require.NoError(t, unread.Close())
	require.Equal(t, 1, f.closed)
	require.ErrorIs(t, result.Err(get(unread, string(base.UserKey(es[0].Key)), base.MaxSeq)), ErrReaderClosed)
	require.NoError(t, result.Err(unread.ApproximateOffset(es[0].Key)), "Open read the index")

	f = &memFile{data: f.data, inPieces: true}
	unread = result.Of(Open(f, ReaderOptions{}))(t)
	require.NoError(t, unread.Close())
	_, err := unread.ApproximateOffset(es[0].Key)
	require.ErrorIs(t, err, ErrReaderClosed, "Open did not read the index")
	_, ok = unread.Properties()
	require.False(t, ok)
}

func TestCloseFileLeavesReferencesOnlyWhatIsInMemory(t *testing.T) {
	es := plainEntries(1000, 100)
	released := 0
	f := &memFile{data: buildTable(t, WriterOptions{Filter: bloom}, es)}
	r, err := Open(f, ReaderOptions{Policies: []filter.Policy{bloom}, Cache: newCache(), Released: func(*Reader) { released++ }})
	require.NoError(t, err)
	checkGet(t, r, base.Bytewise, es, base.UserKey(es[0].Key), base.MaxSeq)
	it := newIter(t, r, IterOptions{})
	require.True(t, it.First())
	r.CloseFile()
	r.CloseFile()
	require.Equal(t, 1, f.closed)
	require.Zero(t, released, "there are references")

	checkGet(t, r, base.Bytewise, es, base.UserKey(es[0].Key), base.MaxSeq)
	require.True(t, it.Next())
	require.False(t, it.Last())
	require.Equal(t, base.ErrClosed, it.Err())
	_, err = get(r, string(base.UserKey(es[999].Key)), base.MaxSeq)
	require.Equal(t, base.ErrClosed, err)
	ownBuffers := result.Of(r.NewIter(IterOptions{NoFillCache: true}))(t)
	require.False(t, ownBuffers.Last())
	require.Equal(t, base.ErrClosed, ownBuffers.Err())
	_, _ = it.Close(), ownBuffers.Close()
	require.NoError(t, r.Close())
	require.Equal(t, 1, f.closed)
	require.Equal(t, 1, released)
}

func TestIteratorsAndReferencesKeepTheFileOpen(t *testing.T) {
	es := plainEntries(1000, 100)
	r, f := openBare(t, es)
	it := newIter(t, r, IterOptions{})
	require.True(t, r.Ref())
	require.NoError(t, r.Close())
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	require.Equal(t, len(es), n)
	require.NoError(t, it.Close())
	require.NoError(t, it.Close())
	require.Zero(t, f.closed)
	r.Unref()
	require.Equal(t, 1, f.closed)
	require.Panics(t, r.Unref)
}

func TestConcurrentReadersReadTheIndexAndEachBlockOnce(t *testing.T) {
	es := plainEntries(3000, 100)
	r, f := openBare(t, es)
	f.takeReads()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range es {
				e := es[(i*7+g*100)%len(es)]
				res, err := get(r, string(base.UserKey(e.Key)), base.MaxSeq)
				if err != nil || !res.Found {
					t.Errorf("entry %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	seen := map[uint64]bool{}
	for _, s := range f.takeReads() {
		require.False(t, seen[s.offset], "offset %d was read twice", s.offset)
		seen[s.offset] = true
	}
	require.NoError(t, r.Close())
}

func TestCloseWhileReading(t *testing.T) {
	es := plainEntries(2000, 100)
	for range 20 {
		r, f := openBare(t, es)
		var wg sync.WaitGroup
		started := make(chan struct{}, 4)
		for g := range 4 {
			wg.Go(func() {
				started <- struct{}{}
				for i := range es {
					res, err := get(r, string(base.UserKey(es[(i+g*500)%len(es)].Key)), base.MaxSeq)
					if err == ErrReaderClosed {
						return
					}
					if err != nil || !res.Found {
						t.Errorf("entry %d: %v", i, err)
						return
					}
				}
			})
		}
		<-started
		runtime.Gosched()
		require.NoError(t, r.Close())
		wg.Wait()
		require.Equal(t, 1, f.closed)
	}
}
