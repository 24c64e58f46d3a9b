package command

import (
	"bytes"
	"fmt"
)

// MaxPattern is the length of the longest pattern, in bytes. Redis has no such bound.
const MaxPattern = 1 << 10

// PatternTooLong returns the error of a pattern that is too long, or "".
func PatternTooLong(pattern []byte) string {
	if len(pattern) <= MaxPattern {
		return ""
	}
	return fmt.Sprintf("ERR the pattern has %d bytes; at most %d are supported", len(pattern), MaxPattern)
}

// MatchGlob reports whether all of s matches a pattern as those of KEYS: * is any bytes, ? is one, [a-c] and
// [^a-c] are sets, and \ takes the next byte as it is.
func MatchGlob(pattern, s []byte) bool { return newGlob(pattern).match(s) }

// glob is a pattern as its parts between the *. The first part must be at the beginning of a string and the last
// one at its end. The others are searched from left to right: the first occurrence of each leaves most to the next.
// Parts without sets are searched by bytes.Index, others by Shift-And (Baeza-Yates and Gonnet, "A new approach to
// text searching", CACM 1992) with a bit for each byte of the part. So the time is that of the string's
// length, times 1/64 of the pattern's; trying the pattern at each position took 15 s for the longest key.
//
// A glob is used by one goroutine.
type glob struct {
	parts []part
}

// part matches as many bytes as it has sets, or as literal has if there are no sets.
type part struct {
	literal []byte
	sets    []byteSet
	masks   []uint64 // for each byte, words bits that say which sets have it; nil: not built yet
}

// byteSet has a bit for each byte.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b/64] |= 1 << (b % 64) }
func (s *byteSet) has(b byte) bool { return s[b/64]>>(b%64)&1 != 0 }

// invert makes it the set of all other bytes.
func (s *byteSet) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func newGlob(pattern []byte) *glob {
	g := &glob{parts: make([]part, 1, 4)}
	for p := 0; p < len(pattern); {
		last := &g.parts[len(g.parts)-1]
		switch b := pattern[p]; {
		case b == '*':
			g.parts = append(g.parts, part{})
			p++
		case b == '?':
			last.addSet(byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)})
			p++
		case b == '[':
			var s byteSet
			s, p = parseSet(pattern, p+1)
			last.addSet(s)
		case b == '\\' && p+1 < len(pattern):
			last.addByte(pattern[p+1])
			p += 2
		default:
			last.addByte(b)
			p++
		}
	}
	return g
}

// parseSet returns the set that begins at p, after its bracket, and the position after it. As in Redis, a set
// without an end ends with the pattern.
func parseSet(pattern []byte, p int) (s byteSet, next int) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			s.add(pattern[p])
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := pattern[p], pattern[p+2]
			for b := int(min(low, high)); b <= int(max(low, high)); b++ {
				s.add(byte(b))
			}
			p += 2
		default:
			s.add(pattern[p])
		}
	}
	if negated {
		s.invert()
	}
	return s, min(p+1, len(pattern))
}

func (p *part) addByte(b byte) {
	if p.sets == nil {
		p.literal = append(p.literal, b)
		return
	}
	var s byteSet
	s.add(b)
	p.sets = append(p.sets, s)
}

func (p *part) addSet(s byteSet) {
	if p.sets == nil {
		for _, b := range p.literal {
			var one byteSet
			one.add(b)
			p.sets = append(p.sets, one)
		}
		p.literal = nil
	}
	p.sets = append(p.sets, s)
}

func (p *part) size() int { return len(p.literal) + len(p.sets) } // one of them is empty

// equals reports whether it matches s, which has its size.
func (p *part) equals(s []byte) bool {
	if p.sets == nil {
		return bytes.Equal(p.literal, s)
	}
	for i, b := range s {
		if !p.sets[i].has(b) {
			return false
		}
	}
	return true
}

func (p *part) words() int { return (len(p.sets) + 63) / 64 }

// find returns where it first matches within s, or -1.
func (p *part) find(s []byte) int {
	if p.sets == nil {
		return bytes.Index(s, p.literal)
	}
	words := p.words()
	if p.masks == nil {
		p.masks = make([]uint64, 256*words)
		for i := range p.sets {
			for b := range 256 {
				if p.sets[i].has(byte(b)) {
					p.masks[b*words+i/64] |= 1 << (i % 64)
				}
			}
		}
	}
	// Bit i of state says that the first i+1 sets match the bytes that end here.
	state, last := make([]uint64, words), len(p.sets)-1
	for at, b := range s {
		mask, carry := p.masks[int(b)*words:(int(b)+1)*words], uint64(1)
		for w := range state {
			shifted := state[w]<<1 | carry
			carry = state[w] >> 63
			state[w] = shifted & mask[w]
		}
		if state[last/64]>>(last%64)&1 != 0 {
			return at - last
		}
	}
	return -1
}

func (g *glob) match(s []byte) bool {
	first, last := &g.parts[0], &g.parts[len(g.parts)-1]
	if len(g.parts) == 1 {
		return len(s) == first.size() && first.equals(s)
	}
	if len(s) < first.size()+last.size() || !first.equals(s[:first.size()]) || !last.equals(s[len(s)-last.size():]) {
		return false
	}
	s = s[first.size() : len(s)-last.size()]
	for i := 1; i < len(g.parts)-1; i++ {
		at := g.parts[i].find(s)
		if at < 0 {
			return false
		}
		s = s[at+g.parts[i].size():]
	}
	return true
}

// work is about what matching a string of some length costs, in the unit of a meter.
func (g *glob) work(length int) int {
	words := 0
	for i := range g.parts {
		words = max(words, g.parts[i].words())
	}
	return length * (1 + words)
}
