package rangefilter

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// eliasFano is a sorted list of n numbers below n<<low, in n*low bits and 2n more. The lower bits of the numbers are
// stored one after the other. The upper bits are stored in unary: a one for each number of bucket 0, the numbers whose
// upper bits are 0, then a zero, a one for each number of bucket 1, and so on. Each zero ends a bucket.
//
// Sources: P. Elias, "Efficient Storage and Retrieval by Content and Address of Static Files", 1974; R. Fano, "On the
// Number of Bits Required to Implement an Associative Memory", 1971.
type eliasFano struct {
	n, low uint64
	lows   []byte // the lower bits, followed by at least eight bytes
	highs  []byte // the upper bits, in whole words
	// zeros[i] is the number of zeros in highs before the i-th run of zerosPer bits. It uses
	// an eighth of a bit per number.
	zeros []uint32
}

const zerosPer = 512 // bits

func lowBytes(n, low uint64) uint64 { return (n*low + 7) / 8 }
func highBytes(n uint64) uint64     { return (2*n + 63) / 64 * 8 }

// appendEliasFano appends the list of sorted numbers below len(numbers)<<low; low is at most 32.
func appendEliasFano(dst []byte, numbers []uint64, low uint64) []byte {
	n := uint64(len(numbers))
	start, size := len(dst), int(lowBytes(n, low)+highBytes(n))
	dst = slices.Grow(dst, size)[:start+size]
	lows, highs := dst[start:start+int(lowBytes(n, low))], dst[start+int(lowBytes(n, low)):]
	clear(dst[start:]) // spare capacity holds whatever was there before
	for i, x := range numbers {
		at := uint64(i) * low
		rest := x & (1<<low - 1) << (at % 8)
		for j := at / 8; rest > 0; j++ {
			lows[j] |= byte(rest)
			rest >>= 8
		}
		bit := x>>low + uint64(i)
		highs[bit/8] |= 1 << (bit % 8)
	}
	return dst
}

// parseEliasFano reads a list of n numbers that fills b. ok is false if b has another size or another number of ones.
func parseEliasFano(b []byte, n, low uint64) (e eliasFano, ok bool) {
	if uint64(len(b)) != lowBytes(n, low)+highBytes(n) {
		return e, false
	}
	e = eliasFano{n: n, low: low, lows: b, highs: b[lowBytes(n, low):]}
	zeros := uint32(0)
	for i := 0; i < len(e.highs); i += 8 {
		if i*8%zerosPer == 0 {
			e.zeros = append(e.zeros, zeros)
		}
		zeros += uint32(bits.OnesCount64(^e.word(i)))
	}
	return e, uint64(len(e.highs))*8-uint64(zeros) == n
}

// word returns the eight bytes of highs from i on.
func (e *eliasFano) word(i int) uint64 { return binary.LittleEndian.Uint64(e.highs[i:]) }

// lowOf returns the lower bits of number i. It may load eight bytes, because highs, which follows, has at least eight.
func (e *eliasFano) lowOf(i uint64) uint64 {
	at := i * e.low
	return binary.LittleEndian.Uint64(e.lows[at/8:]) >> (at % 8) & (1<<e.low - 1)
}

// zero returns the position of zero k in highs, which has more than k zeros.
func (e *eliasFano) zero(k uint64) uint64 {
	run := e.runOf(k)
	k -= uint64(e.zeros[run])
	for i := run * zerosPer / 8; ; i += 8 {
		zeros := ^e.word(i)
		count := uint64(bits.OnesCount64(zeros))
		if k >= count {
			k -= count
			continue
		}
		return uint64(i)*8 + oneOf(zeros, k)
	}
}

// oneOf returns the position of one k in word, which has more than k ones. It finds the byte by adding up the ones of
// all bytes simultaneously: clearing ones one at a time takes as long as a load that misses the cache.
func oneOf(word, k uint64) uint64 {
	const each = 0x0101010101010101
	sums := word - word>>1&(0x55*each)
	sums = sums&(0x33*each) + sums>>2&(0x33*each)
	sums = (sums + sums>>4) & (0x0f * each) * each // byte i: the ones in bytes 0 to i
	enough := (sums | 0x80*each) - (k+1)*each      // the upper bit remains set in bytes with more than k
	shift := uint64(bits.TrailingZeros64(enough&(0x80*each))) - 7
	k -= sums << 8 >> shift & 0xff
	rest := word >> shift
	for ; k > 0; k-- {
		rest &= rest - 1
	}
	return shift + uint64(bits.TrailingZeros64(rest))
}

// runOf returns the run of zerosPer bits that contains zero k: it guesses the run from an even
// spread of numbers, and falls back to a binary search.
func (e *eliasFano) runOf(k uint64) int {
	lo, hi := 0, len(e.zeros) // the run is within
	if guess := int(2 * k / zerosPer); guess < hi {
		switch {
		case uint64(e.zeros[guess]) > k:
			hi = guess
		case guess+1 == hi || uint64(e.zeros[guess+1]) > k:
			return guess
		default:
			lo = guess + 1
		}
	}
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); uint64(e.zeros[mid]) > k {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// bucket returns the indexes of the first number of a bucket and of the first one after it.
func (e *eliasFano) bucket(b uint64) (begin, end uint64) {
	at := uint64(0)
	if b > 0 {
		at = e.zero(b-1) + 1
	}
	// The zero that ends the bucket is usually in the same word.
	stop := at + uint64(bits.TrailingZeros64(^e.word(int(at/64*8))>>(at%64)))
	if stop >= at/64*64+64 {
		stop = e.zero(b)
	}
	return at - b, stop - b
}

// seek returns the index of the first of the numbers begin to end, all of one bucket, whose
// lower bits are at least low, or end if there is none.
func (e *eliasFano) seek(begin, end, low uint64) uint64 {
	for begin < end {
		if mid := begin + (end-begin)/2; e.lowOf(mid) < low {
			begin = mid + 1
		} else {
			end = mid
		}
	}
	return begin
}

// anyWithin reports whether one of the numbers is in u..v, where u <= v < n<<low.
func (e *eliasFano) anyWithin(u, v uint64) bool {
	first, last, mask := u>>e.low, v>>e.low, uint64(1)<<e.low-1
	begin, end := e.bucket(first)
	i := e.seek(begin, end, u&mask)
	if first == last {
		return i < end && e.lowOf(i) <= v&mask
	}
	if i < end {
		return true
	}
	begin, next := e.bucket(last)
	return begin > end || begin < next && e.lowOf(begin) <= v&mask
}
