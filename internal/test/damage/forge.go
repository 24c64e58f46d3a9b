package damage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/sievedb/sievedb/util"
)

// Forge makes tables with valid checksums and invalid contents. It divides an intact table into
// sites: the numbers and byte strings of the format, in the order of the file. Build joins the table
// again, with chosen sites changed, and then sets every checksum. Positions are adjusted: if a block
// is longer, the blocks after it move, and their handles change.
//
// Forge has its own reader and writer of the format, so a fault of the store's code has no effect on it.
type Forge struct {
	data    []block
	filters []filterBlock // in the order of the file
	props   block
	meta    block
	index   block
	propsAt int // the metaindex entry of the properties, -1 if there is none

	// warp, if it is not nil, returns the handles that the index lists. Its arguments are the
	// handles of the data blocks and of the blocks after them: filters, properties, metaindex.
	warp func(data, others [][2]uint64) [][2]uint64
}

// filterBlock is a block with a filter of keys and its envelope, or with a filter of ranges.
type filterBlock struct {
	raw      []byte
	envelope bool
	offset   uint64
	entries  []int // the metaindex entries that list it
}

// block is a decoded block.
type block struct {
	entries  []entry
	restarts []uint32
	kind     byte // compression: 0, 1 or 2
}

type entry struct {
	shared        uint64
	suffix, value []byte
}

const (
	trailerLen = 5
	footerLen  = 48
	magic      = uint64(0xdb4775248b80fb57)
)

// NewForge decodes an intact table. It supports compression kinds 0 and 1, and the filters and
// properties that the store writes.
func NewForge(table []byte) (*Forge, error) {
	if len(table) < footerLen {
		return nil, fmt.Errorf("a table of %d bytes", len(table))
	}
	foot := table[len(table)-footerLen:]
	var err error
	get := func(at []byte) (b block) {
		off, size := handleAt(at)
		if err == nil {
			b, err = parseBlock(table[off:off+size], table[off+size])
		}
		return b
	}
	_, n := binary.Uvarint(foot)
	_, m := binary.Uvarint(foot[n:])
	f := &Forge{propsAt: -1}
	f.meta, f.index = get(foot), get(foot[n+m:])
	for _, e := range f.index.entries {
		f.data = append(f.data, get(e.value))
	}
	for i, e := range f.meta.entries {
		if string(e.suffix) == "filter.sievedb.properties" {
			f.props, f.propsAt = get(e.value), i
			continue
		}
		off, size := handleAt(e.value)
		at := slices.IndexFunc(f.filters, func(b filterBlock) bool { return b.offset == off })
		if at < 0 {
			at = len(f.filters)
			envelope := !bytes.HasPrefix(e.suffix, []byte("filter.sievedb.range."))
			f.filters = append(f.filters, filterBlock{raw: table[off : off+size], envelope: envelope, offset: off})
		}
		f.filters[at].entries = append(f.filters[at].entries, i)
	}
	slices.SortFunc(f.filters, func(a, b filterBlock) int { return cmp.Compare(a.offset, b.offset) })
	return f, err
}

// zstdEncoder makes frames that state their size.
var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return enc
})

func handleAt(b []byte) (off, size uint64) {
	off, n := binary.Uvarint(b)
	size, _ = binary.Uvarint(b[n:])
	return off, size
}

func parseBlock(raw []byte, kind byte) (b block, err error) {
	b.kind = kind
	if kind == 1 {
		if raw, err = snappy.Decode(nil, raw); err != nil {
			return b, err
		}
	}
	count := int(binary.LittleEndian.Uint32(raw[len(raw)-4:]))
	end := len(raw) - 4 - 4*count
	for i := range count {
		b.restarts = append(b.restarts, binary.LittleEndian.Uint32(raw[end+4*i:]))
	}
	for rest := raw[:end]; len(rest) > 0; {
		var v [3]uint64
		for i := range v {
			n := 0
			v[i], n = binary.Uvarint(rest)
			rest = rest[n:]
		}
		b.entries = append(b.entries, entry{v[0], rest[:v[1]], rest[v[1] : v[1]+v[2]]})
		rest = rest[v[1]+v[2]:]
	}
	return b, nil
}

// forging is a table that is being built.
type forging struct {
	*Forge
	out []byte
	// site is the number of sites visited; change has the sites to change.
	site    int
	change  map[int]bool
	rnd     *rand.Rand
	changed []string
}

// Sites returns the number of sites of the table.
func (f *Forge) Sites() int {
	g := forging{Forge: f}
	g.table()
	return g.site
}

// Sound returns the table without changes of sites.
func (f *Forge) Sound() []byte {
	g := forging{Forge: f}
	g.table()
	return g.out
}

// Build returns the table with one to three randomly chosen sites changed, and descriptions of them.
func (f *Forge) Build(rnd *rand.Rand, sites int) (table []byte, changed []string) {
	g := forging{Forge: f, change: map[int]bool{}, rnd: rnd}
	for range 1 + rnd.IntN(3) {
		g.change[rnd.IntN(sites)] = true
	}
	g.table()
	return g.out, g.changed
}

// hit visits a site and reports whether it must be changed.
func (g *forging) hit(what string) bool {
	g.site++
	if !g.change[g.site-1] {
		return false
	}
	g.changed = append(g.changed, what)
	return true
}

// hostile are numbers at which arithmetic overflows or a bound is exceeded.
var hostile = []uint64{
	0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 62, 63, 64, 0x7f, 0x80, 0xff, 0x100, 0xffff, 1 << 20, 64 << 20, 64<<20 + 1,
	1<<31 - 1 - trailerLen, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<56 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1,
}

// num visits a site with a number and returns the number, which may be changed.
func (g *forging) num(what string, v uint64) uint64 {
	if !g.hit(what) {
		return v
	}
	switch g.rnd.IntN(4) {
	case 0:
		return v + uint64(g.rnd.IntN(9)) - 4
	case 1:
		return v ^ 1<<g.rnd.IntN(64)
	case 2:
		return -v + uint64(g.rnd.IntN(3)) - 1
	}
	return hostile[g.rnd.IntN(len(hostile))]
}

// bytes visits a site with a byte string and returns the string, which may be changed.
func (g *forging) bytes(what string, b []byte) []byte {
	if !g.hit(what) {
		return b
	}
	b = slices.Clone(b)
	at := func(n int) int { return g.rnd.IntN(max(1, n)) }
	switch g.rnd.IntN(6) {
	case 0:
		return nil
	case 1:
		return b[:at(len(b))]
	case 2:
		return append(b, b[at(len(b)):]...)
	case 3:
		return append(b, make([]byte, at(64))...)
	case 4:
		for range min(len(b), 4) {
			b[at(len(b))] = byte(g.rnd.Uint32())
		}
		return b
	}
	if len(b) > 0 {
		b[at(len(b))] ^= 1 << g.rnd.IntN(8)
	}
	return b
}

func (g *forging) varint(dst []byte, what string, v uint64) []byte {
	return binary.AppendUvarint(dst, g.num(what, v))
}

func (g *forging) fixed32(dst []byte, what string, v uint64) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(g.num(what, v)))
}

// table writes the table to g.out.
func (g *forging) table() {
	var handles [][2]uint64
	for _, b := range g.data {
		handles = append(handles, g.stored("data", g.block("data", b, nil), b.kind))
	}
	values := map[int][]byte{}
	var others [][2]uint64
	for _, f := range g.filters {
		h := g.stored("filter", g.filterBlock(f), 0)
		others = append(others, h)
		for _, i := range f.entries {
			values[i] = g.handle("filter", h)
		}
	}
	if g.propsAt >= 0 {
		h := g.stored("properties", g.block("properties", g.props, nil), g.props.kind)
		others = append(others, h)
		_, n := binary.Uvarint(g.meta.entries[g.propsAt].value)
		_, m := binary.Uvarint(g.meta.entries[g.propsAt].value[n:])
		last, k := binary.Uvarint(g.meta.entries[g.propsAt].value[n+m:])
		v := g.varint(g.handle("properties", h), "metaindex: last data offset", last)
		values[g.propsAt] = append(v, g.bytes("metaindex: bounds", g.meta.entries[g.propsAt].value[n+m+k:])...)
	}
	meta := g.stored("metaindex", g.block("metaindex", g.meta, values), g.meta.kind)
	values = map[int][]byte{}
	if g.warp != nil {
		handles = g.warp(handles, append(others, meta))
	}
	for i := range min(len(handles), len(g.index.entries)) {
		values[i] = g.handle("data", handles[i])
	}
	index := g.stored("index", g.block("index", g.index, values), g.index.kind)
	foot := append(g.handle("metaindex", meta), g.handle("index", index)...)
	foot = g.bytes("footer", foot)
	if n := footerLen - 8 - len(foot); n > 0 {
		foot = append(foot, make([]byte, n)...)
	}
	g.out = append(g.out, foot[:footerLen-8]...)
	g.out = binary.LittleEndian.AppendUint64(g.out, g.num("footer: magic", magic))
}

// handle encodes h, the handle of the named block.
func (g *forging) handle(of string, h [2]uint64) []byte {
	b := g.varint(nil, "handle of the "+of+" block: offset", h[0])
	return g.bytes("handle of the "+of+" block", g.varint(b, "handle of the "+of+" block: size", h[1]))
}

// block encodes a block. values, by index, replace the values of entries.
func (g *forging) block(part string, b block, values map[int][]byte) (raw []byte) {
	for _, what := range []string{"restart interval", "key length", "entry count"} {
		if g.hit(part + ": " + what) {
			b = b.reshaped(g.rnd, what)
		}
	}
	for i, e := range b.entries {
		value, ok := values[i]
		if !ok {
			value = g.bytes(part+": value", e.value)
		}
		suffix := g.bytes(part+": key", e.suffix)
		raw = g.varint(raw, part+": shared length", e.shared)
		raw = g.varint(raw, part+": unshared length", uint64(len(suffix)))
		raw = g.varint(raw, part+": value length", uint64(len(value)))
		raw = append(append(raw, suffix...), value...)
	}
	for _, r := range b.restarts {
		raw = g.fixed32(raw, part+": restart offset", uint64(r))
	}
	raw = g.fixed32(raw, part+": restart count", uint64(len(b.restarts)))
	return g.bytes(part+": block", raw)
}

// filterBlock encodes a filter block: the filter, its offset, the offset of the array, and base_lg.
func (g *forging) filterBlock(f filterBlock) []byte {
	const envelopeLen = 9
	if n := len(f.raw) - envelopeLen; f.envelope && n > 0 {
		b := slices.Clone(g.bytes("filter: bits", f.raw[:n-1]))
		b = append(b, byte(g.num("filter: probes", uint64(f.raw[n-1]))))
		b = g.fixed32(b, "filter: offset", uint64(binary.LittleEndian.Uint32(f.raw[n:])))
		b = g.fixed32(b, "filter: array offset", uint64(binary.LittleEndian.Uint32(f.raw[n+4:])))
		b = append(b, byte(g.num("filter: base_lg", uint64(f.raw[n+8]))))
		return g.bytes("filter: block", b)
	}
	return g.bytes("filter: block", f.raw)
}

// stored compresses a block with kind, appends it with its trailer, and returns its handle.
func (g *forging) stored(part string, raw []byte, kind byte) [2]uint64 {
	switch kind {
	case 1:
		raw = snappy.Encode(nil, raw)
		claimed, n := binary.Uvarint(raw)
		raw = append(g.varint(nil, part+": claimed length", claimed), g.bytes(part+": compressed bytes", raw[n:])...)
	case 2:
		raw = g.bytes(part+": compressed bytes", zstdEncoder().EncodeAll(raw, nil))
	}
	h := [2]uint64{uint64(len(g.out)), uint64(len(raw))}
	g.out = append(g.out, raw...)
	g.out = append(g.out, byte(g.num(part+": compression", uint64(kind))))
	g.out = util.AppendFixed32(g.out, util.MaskCRC(util.CRC32C(g.out[h[0]:])))
	return h
}

// WithProperty returns the table with one property set to value.
func (f *Forge) WithProperty(name string, value uint64) []byte {
	return f.withProperty(name, value).Sound()
}

// WithMark returns the table with mark as the mark of its first and last key.
func (f *Forge) WithMark(mark [8]byte) []byte {
	changed := *f
	changed.meta.entries = slices.Clone(f.meta.entries)
	value := &changed.meta.entries[f.propsAt].value
	*value = append((*value)[:len(*value)-len(mark):len(*value)-len(mark)], mark[:]...)
	return changed.Sound()
}

// WithEmptyIndex returns the table with an empty index.
func (f *Forge) WithEmptyIndex() []byte {
	changed := *f
	changed.index = block{restarts: []uint32{0}}
	return changed.Sound()
}

func (f *Forge) withProperty(name string, value uint64) *Forge {
	changed := *f
	changed.props.entries, changed.props.restarts = slices.Clone(f.props.entries), slices.Clone(f.props.restarts)
	var key []byte
	before, now := 0, 0 // where the entry was and is
	for i := range changed.props.entries {
		e := &changed.props.entries[i]
		if at := slices.Index(f.props.restarts, uint32(before)); at >= 0 {
			changed.props.restarts[at] = uint32(now)
		}
		before += e.size()
		if key = append(key[:e.shared], e.suffix...); string(key) == name {
			e.value = binary.AppendUvarint(nil, value)
		}
		now += e.size()
	}
	return &changed
}

// size returns the encoded size of the entry in bytes.
func (e *entry) size() int {
	n := len(e.suffix) + len(e.value)
	for _, v := range []uint64{e.shared, uint64(len(e.suffix)), uint64(len(e.value))} {
		n += len(binary.AppendUvarint(nil, v))
	}
	return n
}
