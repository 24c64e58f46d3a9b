package filterreport

import (
	"math/rand/v2"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// probesPerBlock spreads the probes over blocks, because the filters of block ranges differ, and
// neighbouring keys are similar.
const probesPerBlock = 64

// probesPerGap is the number of keys made between two neighbouring keys.
const probesPerGap = 4

// fewGaps is the divisor of the wanted probes below which the keys are treated as numbers without gaps. No absent key
// of their shape is between them, so a query for an absent key has a longer key.
const fewGaps = 16

// probeTable queries the filter of r for about probes keys that the table has and as many that it
// does not have. The error means that the table could not be read.
func probeTable(cmp *base.Comparer, r *sstable.Reader, probes int, into *report.FilterProbes) error {
	filters, damage := r.AllFilters()
	p := prober{
		cmp: cmp, r: r, filters: filters, into: into,
		want: uint64(probes),
		// The same keys each time, so that reports of the same tables are equal.
		rnd: rand.New(rand.NewPCG(0x5eed, uint64(probes))),
	}
	blocks := max(1, probes/probesPerBlock)
	for range 2 { // again with more blocks, if there are few gaps
		if err := p.sample(blocks); err != nil {
			return err
		}
		if into.Absent >= p.want {
			break
		}
		blocks *= 8
	}
	if into.Absent < p.want/fewGaps {
		p.longer = true
		if err := p.sample(blocks); err != nil {
			return err
		}
	}
	return damage
}

// sample restarts the queries, for keys of that many blocks.
func (p *prober) sample(blocks int) error {
	*p.into, p.last = report.FilterProbes{}, nil
	return p.r.SampleBlocks(blocks, p.entry)
}

type prober struct {
	cmp     *base.Comparer
	r       *sstable.Reader
	filters sstable.FilterSet
	into    *report.FilterProbes
	want    uint64
	rnd     *rand.Rand

	last   []byte // the previous user key, if it is in the same block
	offset uint64 // of the block
	made   [probesPerGap][]byte
	longer bool // neighbours have no gaps: query keys that extend the first
}

// entry queries a key of the table, and some absent keys between it and the previous one.
func (p *prober) entry(offset uint64, ikey, _ []byte) error {
	key := base.UserKey(ikey)
	if p.into.Stored < p.want {
		p.into.Stored++
		if _, denied := p.filters.Denies(key, offset); denied {
			p.into.Denied++
		}
	}
	if p.last != nil && p.offset == offset {
		p.between(p.last, key)
	}
	p.last, p.offset = append(p.last[:0], key...), offset
	return nil
}

// between queries a few keys between a and b. The table has no keys between two neighbours, so
// they are absent, whatever the key order.
func (p *prober) between(a, b []byte) {
	made := p.made[:0]
	for tries := range 2 * probesPerGap {
		if len(made) == probesPerGap || p.into.Absent >= p.want {
			return
		}
		key := p.made[len(made)][:0]
		if p.longer && tries >= probesPerGap {
			key = longerThan(p.rnd, key, a)
		} else {
			key = likeNeighbours(p.rnd, key, a, b)
		}
		p.made[len(made)] = key
		if p.cmp.Compare(a, key) >= 0 || p.cmp.Compare(key, b) >= 0 ||
			slices.ContainsFunc(made, func(k []byte) bool { return string(k) == string(key) }) {
			continue
		}
		made = p.made[:len(made)+1]
		p.into.Absent++
		if p.r.VerdictAt(key, p.offset) != sstable.FilterNegative {
			p.into.Passed++
		}
	}
}

// likeNeighbours appends to dst a key that consists of the common prefix of a and b, a byte between
// their next bytes, and then random characters of the same kinds as theirs: digits for digits,
// letters for letters. Programs query keys of the same shape, and a weak hash confuses them.
func likeNeighbours(rnd *rand.Rand, dst, a, b []byte) []byte {
	n := base.SharedPrefixLen(a, b)
	model := a
	if n == len(a) {
		model = b
	}
	if n == len(model) { // equal, or not in bytewise order
		return append(dst, b...)
	}
	low, high := int(model[n]), int(model[n])
	if n < len(a) && n < len(b) {
		low, high = min(int(a[n]), int(b[n])), max(int(a[n]), int(b[n]))
	}
	dst = append(dst, model[:n]...)
	dst = append(dst, byte(low+rnd.IntN(high-low+1)))
	for _, c := range model[n+1:] {
		first, count := kindOf(c)
		dst = append(dst, first+byte(rnd.IntN(count)))
	}
	return dst
}

// longerThan appends to dst key and another character of the same kind as its last.
func longerThan(rnd *rand.Rand, dst, key []byte) []byte {
	last := byte('0')
	if len(key) > 0 {
		last = key[len(key)-1]
	}
	first, count := kindOf(last)
	dst = append(dst, key...)
	return append(dst, first+byte(rnd.IntN(count)))
}

// kindOf returns the first character of c's kind, and the number of its characters.
func kindOf(c byte) (first byte, count int) {
	switch {
	case '0' <= c && c <= '9':
		return '0', 10
	case 'a' <= c && c <= 'f':
		return 'a', 6 // possibly hexadecimal
	case 'g' <= c && c <= 'z':
		return 'a', 26
	case 'A' <= c && c <= 'F':
		return 'A', 6
	case 'G' <= c && c <= 'Z':
		return 'A', 26
	case c < 0x80 && c > ' ':
		return c, 1 // a separator stays the same
	}
	return 0, 256
}
