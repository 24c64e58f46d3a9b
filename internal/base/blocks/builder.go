package blocks

import (
	"bytes"
	"math"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/util"
)

// Builder collects blocks for a List. The zero value is empty and ready. It belongs to one goroutine.
type Builder struct {
	keys    fullKeys
	handles []codec.Handle
}

// Reset makes the Builder empty. It keeps memory of up to most bytes for the next list.
func (b *Builder) Reset(most int) {
	if uint64(cap(b.keys.bytes))+4*uint64(cap(b.keys.ends))+16*uint64(cap(b.handles)) > uint64(most) {
		*b = Builder{}
	}
	b.keys.bytes, b.keys.ends, b.handles = b.keys.bytes[:0], b.keys.ends[:0], b.handles[:0]
}

// Len returns the number of blocks.
func (b *Builder) Len() int { return len(b.handles) }

// Last returns the last separator, or nil if there is none. It is valid until the next call.
func (b *Builder) Last() []byte {
	if len(b.keys.ends) == 0 {
		return nil
	}
	return b.keys.at(len(b.keys.ends) - 1)
}

// End returns the offset after the last block and its trailer, 0 if there is none.
func (b *Builder) End() uint64 {
	if len(b.handles) == 0 {
		return 0
	}
	return b.handles[len(b.handles)-1].End()
}

// Grow makes room for n more blocks with keyBytes bytes of separators.
func (b *Builder) Grow(n int, keyBytes uint64) {
	b.keys.bytes = slices.Grow(b.keys.bytes, int(keyBytes))
	b.keys.ends = slices.Grow(b.keys.ends, n)
	b.handles = slices.Grow(b.handles, n)
}

// Add appends a block, which must not begin before End(). It copies the separator, an internal key.
func (b *Builder) Add(separator []byte, h codec.Handle) {
	b.keys.add(separator)
	b.handles = append(b.handles, h)
}

// List returns the blocks. ok is false if a separator is before the one before it.
func (b *Builder) List(c *base.Comparer) (l List, ok bool) {
	l.n = len(b.handles)
	if l.n == 0 {
		return l, true
	}
	if !c.IsBytewise() {
		l.full = b.keys.clone()
		l.last = l.full.at(l.n - 1)
		l.place(b.handles)
		return l, b.ascend(c, nil)
	}
	// They ascend, so a common prefix of two is also one of those between them.
	first := base.UserKey(b.keys.at(0))
	common := base.SharedPrefixLen(first, base.UserKey(b.keys.at(max(l.n-2, 0))))
	l.prefixes = make([]uint64, l.n)
	for i := range l.prefixes {
		l.prefixes[i] = math.MaxUint64
		if key := base.UserKey(b.keys.at(i)); bytes.HasPrefix(key, first[:common]) {
			l.prefixes[i] = util.Prefix64(key, common)
		}
	}
	if !b.ascend(c, l.prefixes) {
		return List{}, false
	}
	l.tops = make([]uint64, l.n/groupLen)
	for i := range l.tops {
		l.tops[i] = l.prefixes[(i+1)*groupLen-1]
	}
	l.keep(b, common)
	l.place(b.handles)
	return l, true
}

// ascend reports whether each separator is at or after the one before it. prefixes, if there are some, decide about
// most pairs.
func (b *Builder) ascend(c *base.Comparer, prefixes []uint64) bool {
	for i := 1; i < len(b.handles); i++ {
		// A separator without the common prefix has the greatest number, which says nothing.
		if prefixes != nil && prefixes[i-1] < prefixes[i] && prefixes[i] < math.MaxUint64 {
			continue
		}
		if base.CompareInternal(c, b.keys.at(i-1), b.keys.at(i)) > 0 {
			return false
		}
	}
	return true
}

// keep makes the separators those of b, which ascend, and of which all but the last share common bytes: short if they
// can be.
func (l *List) keep(b *Builder, common int) {
	oldest, some, longs := b.shorten(common)
	if len(longs) > l.n/mostLong {
		l.full = b.keys.clone()
		l.common, l.last = l.full.at(0)[:common:common], l.full.at(l.n-1)
		return
	}
	l.oldest = oldest
	l.keepLong(b, longs)
	both := make([]byte, 0, common+len(b.Last()))
	both = append(append(both, b.keys.at(0)[:common]...), b.Last()...)
	l.common, l.last = both[:common:common], both[common:]
	if !some {
		return
	}
	l.codes = make([]uint32, l.n-1)
	for i := range l.codes {
		if l.codes[i] = shortCode; len(longs) == 0 || longs[0] != uint32(i) {
			l.codes[i] = l.code(base.Trailer(b.keys.at(i)))
		} else {
			longs = longs[1:]
		}
	}
}

// keepLong keeps the separators of these blocks in full.
func (l *List) keepLong(b *Builder, longs []uint32) {
	if len(longs) == 0 {
		return
	}
	size := 0
	for _, i := range longs {
		size += len(b.keys.at(int(i)))
	}
	l.longs = slices.Clip(longs)
	l.full = fullKeys{make([]byte, 0, size), make([]uint32, 0, len(longs))}
	for _, i := range longs {
		l.full.add(b.keys.at(int(i)))
	}
}

// shorten returns, of all separators but the last, which cannot be short. Of the others it returns the least sequence
// number of those whose trailer is not shortTrailer, and whether there are some. If there are many that cannot be
// short, it returns only some of them, and more than a share of mostLong.
func (b *Builder) shorten(common int) (oldest uint64, some bool, longs []uint32) {
	oldest, newest := base.MaxSeq, uint64(0)
	for i := range len(b.handles) - 1 {
		key := b.keys.at(i)
		user, trailer := base.UserKey(key), base.Trailer(key)
		n, seq := len(user), trailer>>8
		isLong := n > common+8 || n > common && user[n-1] == 0
		if trailer != shortTrailer {
			isLong = isLong || base.Kind(trailer) > base.KindRef || some && max(newest, seq)-min(oldest, seq) > maxAbove
			if !isLong {
				oldest, newest, some = min(oldest, seq), max(newest, seq), true
			}
		}
		if !isLong {
			continue
		}
		if longs = append(longs, uint32(i)); len(longs) > len(b.handles)/mostLong {
			break
		}
	}
	return oldest, some, longs
}

// mostLong is the share of separators that may be in full among short ones: with more, all are.
const mostLong = 8

// place makes the places of the blocks handles.
func (l *List) place(handles []codec.Handle) {
	for i, h := range handles {
		if i > 0 && h.Offset != handles[i-1].End() || h.End() > math.MaxUint32 {
			l.handles = append([]codec.Handle(nil), handles...)
			return
		}
	}
	l.starts = make([]uint32, l.n+1)
	for i, h := range handles {
		l.starts[i], l.starts[i+1] = uint32(h.Offset), uint32(h.End())
	}
}
