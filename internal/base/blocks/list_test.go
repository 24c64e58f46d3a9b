package blocks

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/util"
)

func ikey(user string, seq uint64, kind base.Kind) []byte {
	return base.AppendInternalKey(nil, []byte(user), seq, kind)
}

// contiguous returns places for n blocks of these sizes, the first at byte 0.
func contiguous(n int, size func(i int) uint64) (handles []codec.Handle) {
	offset := uint64(0)
	for i := range n {
		h := codec.Handle{Offset: offset, Size: size(i)}
		handles, offset = append(handles, h), h.End()
	}
	return handles
}

func listOf(t testing.TB, c *base.Comparer, separators [][]byte, handles []codec.Handle) List {
	t.Helper()
	var b Builder
	for i, sep := range separators {
		require.Equal(t, i, b.Len())
		b.Add(sep, handles[i])
		require.Equal(t, sep, b.Last())
		require.Equal(t, handles[i].End(), b.End())
	}
	l, ok := b.List(c)
	require.True(t, ok)
	b.Reset(1 << 20)
	b.Add(bytes.Repeat([]byte{0xff}, 50), codec.Handle{Size: 1}) // the list must not use the builder's memory
	return l
}

// requireAgrees compares a list with the separators and handles that it was made from.
func requireAgrees(t testing.TB, c *base.Comparer, l *List, separators [][]byte, handles []codec.Handle, targets [][]byte) {
	t.Helper()
	require.Equal(t, len(separators), l.Len())
	for i, sep := range separators {
		require.Equal(t, sep, l.Separator(i), "separator %d of %q", i, separators)
		require.Equal(t, handles[i], l.Handle(i))
	}
	for _, target := range targets {
		user, trailer := base.UserKey(target), base.Trailer(target)
		for i, sep := range separators {
			whole, byUser := base.CompareInternal(c, sep, target), c.Compare(base.UserKey(sep), user)
			if whole != cmp.Compare(l.Compare(c, i, user, trailer), 0) || byUser != cmp.Compare(l.CompareUser(c, i, user), 0) ||
				(byUser == 0 && i+1 < len(separators)) != l.Continues(c, i, user) {
				t.Fatalf("separator %q and %q of %q", sep, target, separators)
			}
		}
		want := sort.Search(len(separators), func(i int) bool { return base.CompareInternal(c, separators[i], target) >= 0 })
		require.Equal(t, want, l.Find(l.Aim(user), c, user, trailer), "%q among %q", target, separators)
	}
}

// families make user keys, of which 0 to 99 may be asked for, and say whether separators of them are short.
var families = []struct {
	name  string
	key   func(i int) string
	short bool
}{
	{"dense counters", func(i int) string { return fmt.Sprintf("user%016d", 7*i) }, true},
	{"big-endian numbers", func(i int) string { return string(binary.BigEndian.AppendUint64([]byte("n"), uint64(i)*0x10001+1)) }, true},
	{"numbers that end in zeros", func(i int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(i)<<8)) }, false},
	{"prefixes of each other", func(i int) string { return fmt.Sprintf("%0*d", 1+i%3, i) }, true},
	{"long tails", func(i int) string { return fmt.Sprintf("%03d and a long tail", i) }, false},
	{"few keys, many versions", func(i int) string { return fmt.Sprintf("%d", i/9) }, true},
	{"nothing", func(int) string { return "" }, true},
}

// randomSeparators returns separators of up to 100 keys, in order, and internal keys to look for. In every second round
// some trailers are those of shortened keys, and in every third the last separator is that of the end of a table.
func randomSeparators(rnd *rand.Rand, key func(i int) string, round int) (separators, targets [][]byte) {
	for i := range 100 {
		for range rnd.IntN(2) + rnd.IntN(2) {
			sep := ikey(key(i), 1000+rnd.Uint64N(1<<(8+rnd.IntN(20))), base.Kind(rnd.IntN(2)))
			if round%2 == 0 && rnd.IntN(2) == 0 {
				sep = ikey(key(i), base.MaxSeq, base.KindSeparator)
			}
			separators = append(separators, sep)
		}
		targets = append(targets, ikey(key(i), rnd.Uint64N(2000), base.KindSet),
			ikey(key(i)[:rnd.IntN(len(key(i))+1)], base.MaxSeq, base.KindSeparator), ikey(key(i)+"\x00", 1, base.KindSet))
	}
	slices.SortFunc(separators, func(a, b []byte) int { return base.CompareInternal(base.Bytewise, a, b) })
	if last := len(separators) - 1; round%3 == 0 {
		separators[last] = base.InternalSuccessor(base.Bytewise, nil, separators[last])
	}
	return separators, targets
}

func TestListsAgreeWithWholeKeys(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			for round := range 24 {
				separators, targets := randomSeparators(rnd, f.key, round)
				separators = separators[:1+rnd.IntN(len(separators))]
				handles := contiguous(len(separators), func(int) uint64 { return rnd.Uint64N(5000) })
				l := listOf(t, base.Bytewise, separators, handles)
				requireAgrees(t, base.Bytewise, &l, separators, handles, append(targets, separators...))
				require.True(t, l.full.ends == nil || !f.short || len(separators) == 1)
				if len(separators) > 30 {
					require.Equal(t, f.short, l.full.ends == nil)
				}
			}
		})
	}
}

// If keys are counters, the last separator shares nothing with the others ("1"). That once made all prefixes
// "00000000", and each lookup compared whole keys.
func TestAShortLastSeparatorKeepsOtherPrefixesDistinct(t *testing.T) {
	var separators, targets [][]byte
	for i := range 100 {
		separators = append(separators, ikey(fmt.Sprintf("%016d", 7*i), 1, base.KindSet))
	}
	separators[99] = base.InternalSuccessor(base.Bytewise, nil, separators[99])
	require.Equal(t, "1", string(base.UserKey(separators[99])))
	for i := range 800 {
		targets = append(targets, ikey(fmt.Sprintf("%016d", i), base.MaxSeq, base.KindSeparator))
	}
	for _, user := range []string{"", "0", "00000000000001", "0000000000001", "000000000000\xff", "1", "1\x00", "2"} {
		targets = append(targets, ikey(user, base.MaxSeq, base.KindSeparator))
	}
	handles := contiguous(100, func(int) uint64 { return 5 })
	l := listOf(t, base.Bytewise, separators, handles)
	requireAgrees(t, base.Bytewise, &l, separators, handles, targets)
	for i := 1; i < l.Len(); i++ {
		require.Less(t, l.prefixes[i-1], l.prefixes[i])
	}
}

// A block of a table with dense keys takes at most 18 bytes: 9 for the search, 4 for the trailer, 4 for the place.
func TestAListOfDenseKeysIsSmall(t *testing.T) {
	const n = 1000
	var separators [][]byte
	for i := range n {
		separators = append(separators, ikey(fmt.Sprintf("%016d", 35*i), uint64(i*7919%n), base.KindSet))
	}
	l := listOf(t, base.Bytewise, separators, contiguous(n, func(int) uint64 { return 4000 }))
	require.LessOrEqual(t, l.MemBytes(), uint64(18*n))
	for _, sep := range separators {
		copy(sep[len(sep)-base.TrailerLen:], ikey("", base.MaxSeq, base.KindSeparator))
	}
	l = listOf(t, base.Bytewise, separators, contiguous(n, func(int) uint64 { return 4000 }))
	require.LessOrEqual(t, l.MemBytes(), uint64(14*n), "trailers of shortened separators take no memory")
	size := 0
	for i, sep := range separators {
		separators[i] = append(bytes.Repeat([]byte{'0' + byte(i%7)}, 30), sep...)
		size += len(separators[i])
	}
	slices.SortFunc(separators, func(a, b []byte) int { return base.CompareInternal(base.Bytewise, a, b) })
	l = listOf(t, base.Bytewise, separators, contiguous(n, func(int) uint64 { return 4000 }))
	require.NotNil(t, l.full.ends)
	require.InDelta(t, size+17*n, l.MemBytes(), float64(size/8), "each separator counts once")
}

// A few separators that cannot be short, such as whole keys among shortened ones, do not make the others longer.
func TestFewLongSeparatorsAreKeptBesideShortOnes(t *testing.T) {
	const n = 200
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, every := range []int{200, 100, 20, 9, 7} {
		var separators, targets [][]byte
		for i := range n {
			user, trailer := fmt.Sprintf("k%05d", 50*i+1), ikey("", base.MaxSeq, base.KindSeparator)
			if i%every == every/2 {
				user += string([]byte{byte(i), 1, 2, 3, 4, 5, byte(i % 3)})
				trailer = ikey("", rnd.Uint64N(base.MaxSeq), []base.Kind{base.KindSet, base.KindRef, 7}[i%3])
			}
			separators = append(separators, append([]byte(user), trailer...))
			for _, tail := range []string{"", "\x00", "\x01\x02"} {
				targets = append(targets, ikey(fmt.Sprintf("k%05d", 50*i+rnd.IntN(3))+tail, rnd.Uint64N(base.MaxSeq), base.KindSet))
			}
		}
		handles := contiguous(n, func(int) uint64 { return 4000 })
		l := listOf(t, base.Bytewise, separators, handles)
		requireAgrees(t, base.Bytewise, &l, separators, handles, append(targets, separators...))
		require.Equal(t, every > mostLong, l.longs != nil)
		if every > mostLong {
			require.LessOrEqual(t, l.MemBytes(), uint64(14*n+36*(n/every)+64))
		}
	}
}

// What cannot be short is kept as it is.
func TestListsKeepWhatDoesNotFit(t *testing.T) {
	separators := [][]byte{ikey("a", 1, base.KindSet), ikey("b", 2, base.KindSet), ikey("c", 3, base.KindSet)}
	handles := contiguous(3, func(int) uint64 { return 9 })
	agree := func(t *testing.T, c *base.Comparer, short bool) (l List) {
		l = listOf(t, c, separators, handles)
		requireAgrees(t, c, &l, separators, handles, separators)
		require.Equal(t, short, l.full.ends == nil)
		return l
	}
	t.Run("sequence numbers far apart", func(t *testing.T) {
		separators[1] = ikey("b", 1+maxAbove, base.KindSet)
		agree(t, base.Bytewise, true)
		separators[1] = ikey("b", 2+maxAbove, base.KindSet)
		agree(t, base.Bytewise, false)
		separators[1] = ikey("b", base.MaxSeq, base.KindDelete)
		agree(t, base.Bytewise, false)
		separators[1] = ikey("b", base.MaxSeq, base.KindSeparator)
		agree(t, base.Bytewise, true)
	})
	t.Run("kinds of later versions", func(t *testing.T) {
		separators[0] = ikey("a", 1, base.KindRef+1)
		agree(t, base.Bytewise, false)
		separators[0] = ikey("a", 1, base.KindDelete)
	})
	t.Run("another order", func(t *testing.T) {
		slices.Reverse(separators)
		agree(t, &base.Comparer{Name: "backward", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}, false)
		slices.Reverse(separators)
	})
	t.Run("gaps between blocks", func(t *testing.T) {
		handles[2].Offset += 3
		l := agree(t, base.Bytewise, true)
		require.Nil(t, l.starts)
	})
	t.Run("beyond 4 GiB", func(t *testing.T) {
		for _, last := range []uint64{math.MaxUint32, math.MaxUint32 + 1} {
			rest := last - 3*codec.BlockTrailerLen
			handles = contiguous(3, func(i int) uint64 { return (rest + uint64(i)) / 3 })
			l := agree(t, base.Bytewise, true)
			require.Equal(t, last, l.End())
			require.Equal(t, last == math.MaxUint32, l.starts != nil)
		}
	})
	t.Run("no blocks", func(t *testing.T) {
		separators, handles = nil, nil
		l := listOf(t, base.Bytewise, nil, nil)
		requireAgrees(t, base.Bytewise, &l, nil, nil, [][]byte{ikey("a", 1, base.KindSet)})
		require.Zero(t, l.End())
	})
}

func TestSeparatorsMustAscend(t *testing.T) {
	for _, c := range []*base.Comparer{base.Bytewise, {Name: "other", Compare: bytes.Compare}} {
		var b Builder
		b.Add(ikey("a", 1, base.KindSet), codec.Handle{})
		b.Add(ikey("a", 2, base.KindSet), codec.Handle{Offset: 5})
		_, ok := b.List(c)
		require.False(t, ok)
	}
}

// Any separators, in any form, are found as in a search over whole keys.
func FuzzLists(f *testing.F) {
	for _, family := range families {
		var seed []byte
		for i := range 12 {
			key := family.key(i * 8)
			seed = append(append(seed, byte(len(key))), key...)
			seed = append(seed, byte(i), byte(i%3))
		}
		f.Add(seed, uint8(5))
	}
	f.Fuzz(func(t *testing.T, data []byte, gap uint8) {
		var keys [][]byte
		for len(data) > 3 && len(keys) < 64 {
			n := min(int(data[0])%40, len(data)-3)
			user := string(data[1 : 1+n])
			data = data[1+n:]
			seq, kind := uint64(data[0])<<(data[1]&0x3f)&base.MaxSeq, base.Kind(data[1]>>6)%3
			keys = append(keys, base.AppendInternalKey(nil, []byte(user), seq, kind))
			data = data[2:]
		}
		var targets [][]byte
		for i, key := range keys { // and what is near them
			user := base.UserKey(key)
			near := append(bytes.Clone(user[:len(user)*(i%4)/3]), "\x00\xff"[:i%3]...)
			if len(near) > 0 {
				near[0] += byte(i%3) - 1
			}
			targets = append(targets, key, base.AppendInternalKey(nil, near, base.MaxSeq, base.KindSeparator), base.AppendInternalKey(nil, user, 0, 0))
		}
		slices.SortFunc(keys, func(a, b []byte) int { return base.CompareInternal(base.Bytewise, a, b) })
		handles := contiguous(len(keys), func(i int) uint64 { return uint64(i) << (gap & 31) })
		if gap&64 != 0 && len(handles) > 0 {
			handles[len(handles)-1].Offset += uint64(gap)
		}
		l := listOf(t, base.Bytewise, keys, handles)
		requireAgrees(t, base.Bytewise, &l, keys, handles, targets)
	})
}

func TestLoneBitsAreThoseThatWereSet(t *testing.T) {
	var l Lone
	require.Empty(t, l.Append(nil))
	for _, i := range []int{0, 7, 8, 1000, 8*maxLone - 1, 8 * maxLone} {
		l = l.With(i)
	}
	require.Len(t, l, maxLone)
	for i := range 8*maxLone + 9 {
		require.Equal(t, i == 0 || i == 7 || i == 8 || i == 1000 || i == 8*maxLone-1, l.Has(i))
	}
	require.Equal(t, []byte{2, 0x81, 1}, Lone(nil).With(0).With(7).With(8).Append(nil))
	require.Equal(t, l, DecodeLone(append(l.Append(nil), 1, 2)))
	require.Empty(t, DecodeLone(nil))
	require.Empty(t, DecodeLone([]byte{3, 1, 1}), "cut off")
}

func FuzzLone(f *testing.F) {
	f.Add([]byte{2, 5, 128}, 3)
	f.Add(Lone(nil).With(1000).Append(nil), 1000)
	f.Add(append(util.AppendUvarint64(nil, maxLone+1), make([]byte, maxLone+1)...), 0)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 0)
	f.Fuzz(func(t *testing.T, data []byte, i int) {
		l := DecodeLone(data)
		require.LessOrEqual(t, len(l), min(len(data), maxLone))
		l.Has(i & 0xffffff)
		require.True(t, bytes.Equal(l, DecodeLone(append(l.Append(nil), 7))) || len(l) == 0)
	})
}
