package sstable

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/sievedb/sievedb/util"
)

// tableOfBlock returns a table of one data block, which ends with the internal key last.
func tableOfBlock(t testing.TB, cmp *base.Comparer, block, last []byte) []byte {
	t.Helper()
	return tableByHand(t, WriterOptions{Comparer: cmp, Compression: Zstd}, func(w *Writer) { listBlock(t, w, block, Zstd, last) })
}

// sharingBlock returns a block with one restart point: a key of keyLen bytes, and n more that share all but its
// end. It returns the last key too. The keys differ in a number at the end of the user key.
func sharingBlock(keyLen, n int) (block, last []byte) {
	last = base.AppendInternalKey(nil, bytes.Repeat([]byte("k"), keyLen), 1, base.KindSet)
	suffix := last[keyLen-4:]
	binary.BigEndian.PutUint32(suffix, 0)
	block = append(block, rawEntry(0, uint64(len(last)), 0, string(last))...)
	for i := range n {
		binary.BigEndian.PutUint32(suffix, uint32(i+1))
		block = util.AppendUvarint32(block, uint32(keyLen-4))
		block = append(append(block, byte(len(suffix)), 0), suffix...)
	}
	return rawBlock(string(block), 0), last
}

// watch ends the test's process with a message if the test hangs. The time is far beyond what any machine needs.
func watch(t testing.TB, what string) {
	timer := time.AfterFunc(2*time.Minute, func() { panic(what + " hangs") })
	t.Cleanup(func() { timer.Stop() })
}

// walks are all ways to move through a table. Each returns the number of key bytes that it was given.
var walks = map[string]func(t *testing.T, r *Reader, last []byte) (keys uint64, err error){
	"forward": func(t *testing.T, r *Reader, _ []byte) (uint64, error) {
		return walkKeys(t, r, (*Iter).First, (*Iter).Next)
	},
	"forward in distinct steps": func(t *testing.T, r *Reader, _ []byte) (uint64, error) {
		return walkKeys(t, r, (*Iter).First, func(it *Iter) bool { return it.NextDistinct() || it.Next() })
	},
	"backward": func(t *testing.T, r *Reader, _ []byte) (uint64, error) {
		return walkKeys(t, r, (*Iter).Last, (*Iter).Prev)
	},
	"SeekGE": func(t *testing.T, r *Reader, last []byte) (uint64, error) {
		return walkKeys(t, r, func(it *Iter) bool { return it.SeekGE(last) }, (*Iter).Next)
	},
	"SeekLT": func(t *testing.T, r *Reader, last []byte) (uint64, error) {
		return walkKeys(t, r, func(it *Iter) bool { return it.SeekLT(last) }, (*Iter).Prev)
	},
	"seeks forward": func(t *testing.T, r *Reader, last []byte) (uint64, error) {
		return walkKeys(t, r, (*Iter).First, func(it *Iter) bool { return it.SeekForward(last) })
	},
	"samples": func(_ *testing.T, r *Reader, _ []byte) (keys uint64, err error) {
		err = r.SampleBlocks(1, func(_ uint64, ikey, _ []byte) error {
			keys += uint64(len(ikey))
			return nil
		})
		return keys, err
	},
}

func walkKeys(t *testing.T, r *Reader, start, move func(*Iter) bool) (keys uint64, err error) {
	t.Helper()
	it := newIter(t, r, IterOptions{})
	for ok := start(it); ok; ok = move(it) {
		keys += uint64(len(it.Key()))
	}
	return keys, it.Close()
}

// The bug: a table of 13 KB with a key of a megabyte, and three million entries that share it, needed minutes for one
// scan, and wrote terabytes in a compaction.
func TestKeysThatShareALongKeyAreBounded(t *testing.T) {
	watch(t, "a walk")
	const n = 300_000
	block, last := sharingBlock(1<<20, n)
	most := uint64(unfoldFactor*len(block) + 1<<20)
	require.Less(t, most, uint64(n)<<20/100, "the keys have much more")
	for _, cmp := range []*base.Comparer{base.Bytewise, notBytewise} {
		data := tableOfBlock(t, cmp, block, last)
		require.Less(t, len(data), 256<<10)
		for name, walk := range walks {
			t.Run(cmp.Name+"/"+name, func(t *testing.T) {
				r := result.Of(Open(&memFile{data: data}, ReaderOptions{Comparer: cmp, Name: "000009.ldb"}))(t)
				defer r.Close()
				keys, err := walk(t, r, last)
				require.Empty(t, explainsItself(err), "%v", err)
				require.ErrorContains(t, err, "expand too far")
				require.LessOrEqual(t, keys, most)
			})
		}
		t.Run(cmp.Name+"/Salvage", func(t *testing.T) {
			keys := uint64(0)
			rep, err := Salvage(&memFile{data: data}, ReaderOptions{Comparer: cmp, Name: "000009.ldb"}, func(ikey, _ []byte) error {
				keys += uint64(len(ikey))
				return nil
			})
			require.NoError(t, err)
			require.ErrorIs(t, rep.Err, base.ErrCorruption)
			require.LessOrEqual(t, keys, most)
		})
		t.Run(cmp.Name+"/Get", func(t *testing.T) {
			r := result.Of(Open(&memFile{data: data}, ReaderOptions{Comparer: cmp, Name: "000009.ldb"}))(t)
			defer r.Close()
			res, err := get(r, string(base.UserKey(last)), base.MaxSeq)
			if cmp == base.Bytewise { // it compares no shared byte twice
				require.NoError(t, err)
				require.True(t, res.Found)
			} else {
				require.Empty(t, explainsItself(err), "%v", err)
			}
		})
	}
}

// notBytewise has the order of bytes, but the readers do not know that.
var notBytewise = &sievedb.Comparer{Name: "test.NotBytewise", Compare: bytes.Compare}

// What a Writer writes is within the bounds, whatever its options and the keys are, and is read in both directions.
func TestAWriterKeepsWithinTheBoundsOfReaders(t *testing.T) {
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 31))
	extra := 0
	for table := range 10 {
		o := WriterOptions{BlockSize: 1 << (12 + rnd.IntN(10)), BlockRestartInterval: 1 << rnd.IntN(17), Compression: Zstd}
		prefix := bytes.Repeat([]byte("k"), 1<<(6+rnd.IntN(11))+rnd.IntN(100))
		if table == 0 { // this one needs more restart points
			o.BlockSize, o.BlockRestartInterval, prefix = 8<<20, 1<<16, prefix[:64]
			prefix = bytes.Repeat(prefix, 1<<10)
		}
		var es entries
		for i := range 300 + rnd.IntN(300) {
			cut := rnd.IntN(len(prefix)) >> (10 + rnd.IntN(20))
			user := binary.BigEndian.AppendUint16(bytes.Clone(prefix[cut:]), uint16(i))
			es = append(es, itertest.Entry{Key: base.AppendInternalKey(nil, user, 1, base.KindSet)})
		}
		es = sortEntries(base.Bytewise, es)
		data := buildTable(t, o, es)
		r, _ := openTable(t, data, ReaderOptions{Cache: newCache(), Name: "x"})
		it := newIter(t, r, IterOptions{})
		i, restarts := 0, 0
		for ok := it.First(); ok; ok = it.Next() {
			require.True(t, bytes.Equal(es[i].Key, it.Key()))
			i++
			if it.data.pos == 0 {
				restarts += int(it.data.block.numRestarts) - 1
			}
		}
		require.Equal(t, len(es), i)
		for ok := it.Last(); ok; ok = it.Prev() {
			i--
			require.True(t, bytes.Equal(es[i].Key, it.Key()))
		}
		require.Zero(t, i)
		require.NoError(t, it.Close())
		if restarts > len(es)/o.BlockRestartInterval {
			extra++
		}
	}
	t.Logf("%d tables with additional restart points", extra)
	require.NotZero(t, extra)
}

// The bug: keys above 64 MiB were refused, which LevelDB and goleveldb write. A database with such a key in its log
// could not be opened, and Repair found nothing wrong with it.
func TestKeysOfMoreThan64MiBAreWrittenAndRead(t *testing.T) {
	short := ikey("a", 1, base.KindSet)
	long := base.AppendInternalKey(nil, make([]byte, 64<<20), 1, base.KindSet)
	long[0] = 'b'
	data := buildTable(t, WriterOptions{BlockRestartInterval: 2}, entries{{Key: short}, {Key: long}})
	r := result.Of(Open(&memFile{data: data}, ReaderOptions{}))(t)
	defer r.Close()
	it := newIter(t, r, IterOptions{})
	require.True(t, it.First() && it.Next())
	require.True(t, bytes.Equal(long, it.Key()))
	require.True(t, it.Prev() && it.Next())
	require.True(t, bytes.Equal(long, it.Key()))
	require.NoError(t, it.Close())
}

func TestKeysWithoutRoomForAValueAreRefused(t *testing.T) {
	var long unfolded
	require.Empty(t, long.add(maxKeyLen, maxKeyLen, 0, maxKeyLen))
	require.Equal(t, badEntryLongKey, long.add(maxKeyLen+1, maxKeyLen+1, 0, maxKeyLen+1))
}

// The bug: walking backward remembered each entry of a restart interval in 28 bytes. Entries of four bytes, which
// Zstandard compresses to nearly nothing, needed seven times the memory of the decoded block.
func TestWalkingBackNeedsLittleMemoryAndTime(t *testing.T) {
	watch(t, "a walk")
	const n = 1 << 20
	block, _ := sharingBlock(8, n)
	b, err := newBlock(block, dataPart)
	require.NoError(t, err)
	before := damage.Allocated()
	var it blockIter
	it.init(base.Bytewise, b, dataPart)
	entries := 0
	for ok := it.Last(); ok; ok = it.Prev() {
		entries++
	}
	require.NoError(t, it.err)
	require.Equal(t, n+1, entries)
	require.Less(t, damage.Allocated()-before, uint64(2<<20))
}

// An iterator that walks back through a long interval remembers only a part of it. Every movement must give the same
// entries nevertheless.
func TestMovingBackAndForthInALongInterval(t *testing.T) {
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 32))
	var es entries
	user := []byte("a")
	for range 5*maxPast + rnd.IntN(100) {
		switch rnd.IntN(20) {
		case 0:
			user = user[:rnd.IntN(len(user)+1)]
		case 1:
			user = append(user, make([]byte, rnd.IntN(600))...)
		}
		user = append(user[:min(len(user), 4000)], byte(rnd.UintN(4)))
		es = append(es, itertest.Entry{Key: base.AppendInternalKey(nil, user, uint64(len(es)), base.KindSet), Value: []byte{byte(len(es))}})
	}
	es = sortEntries(base.Bytewise, es)
	w := blockWriter{interval: 1 << 30}
	for _, e := range es {
		w.longKeys = 0
		w.add(e.Key, e.Value)
	}
	b, err := newBlock(w.finish(), dataPart)
	require.NoError(t, err)
	var it blockIter
	it.init(base.Bytewise, b, dataPart)
	at := len(es) - 1
	require.True(t, it.Last())
	check := func() {
		require.True(t, bytes.Equal(es[at].Key, it.Key()), "entry %d", at)
		require.True(t, bytes.Equal(es[at].Value, it.Value()), "entry %d", at)
	}
	for check(); at > 0; check() {
		for range 1 + rnd.IntN(50) {
			if forward := rnd.IntN(3) == 0 && at+1 < len(es); forward {
				at++
				require.True(t, it.Next())
			} else if at > 0 {
				at--
				require.True(t, it.StepBack() || it.Prev())
			}
			check()
		}
	}
	require.False(t, it.Prev())
	for range 60 {
		at = 1 + rnd.IntN(len(es)-1)
		require.True(t, it.SeekLT(es[at].Key))
		at--
		for check(); at > 0 && rnd.IntN(5000) > 0; check() {
			at--
			require.True(t, it.Prev())
		}
	}
	require.NoError(t, it.err)
}

// The bug: a seek to an entry further on in the same restart interval began at its restart point, so the seeks of a
// merge took a time quadratic in the interval.
func TestSeeksForwardInALongIntervalContinue(t *testing.T) {
	watch(t, "a walk in seeks")
	const n = 2_000_000
	block, _ := sharingBlock(8, n)
	b, err := newBlock(block, dataPart)
	require.NoError(t, err)
	var it blockIter
	it.init(base.Bytewise, b, dataPart)
	require.True(t, it.First())
	user := []byte("kkkkkkkk")
	for i := 0; i+20 <= n; i += 20 {
		binary.BigEndian.PutUint32(user[4:], uint32(i+20))
		require.True(t, it.seekForward(user, base.MakeTrailer(1, base.KindSet)))
		require.Equal(t, user, base.UserKey(it.key))
	}
	require.False(t, it.seekForward([]byte("z"), 0))
	require.NoError(t, it.err)
}
