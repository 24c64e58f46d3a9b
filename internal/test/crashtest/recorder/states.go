package recorder

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Model determines which unsynced bytes and names are on the disk after the cut; see the package comment.
type Model int

// The models.
const (
	M0 Model = iota
	M1
	M2
	M3
	M4
	M5
	NumModels
)

// String returns the name of the model.
func (m Model) String() string { return fmt.Sprintf("M%d", int(m)) }

// KeepsAll reports whether the disk has all bytes written before the cut. Then it must have every
// acknowledged write, synced or not.
func (m Model) KeepsAll() bool { return m == M1 }

// ParseModel is the inverse of String.
func ParseModel(s string) (Model, error) {
	for m := M0; m < NumModels; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("crash state %q is unknown, want M0 to M5", s)
}

// State is a disk that a cut may leave.
type State struct {
	Image
	// Detail distinguishes the state from others of its cut and model, for a report.
	Detail string
}

const (
	sectorSize = 512
	pageSize   = 4 << 10
)

// States yields the disks that a power cut at the cursor's cut may leave under the model. Random
// choices depend only on seed, cut and model. The cursor must not move during the iteration.
func (c *Cursor) States(model Model, seed uint64) iter.Seq[State] {
	rnd := rand.New(rand.NewPCG(seed, uint64(c.cut)<<8|uint64(model)))
	return func(yield func(State) bool) {
		if model == M2 {
			c.tornStates(rnd, yield)
			return
		}
		b := builder{model: model, rnd: rnd}
		if model == M5 {
			b.syncedOnly = rnd.IntN(2) == 0
		}
		if yield(State{Image: b.image(c.root)}) && model == M1 {
			c.headlessState(rnd, yield)
		}
	}
}

// headlessState yields what the death of the process in the next operation leaves, if that is a write to a log: a part
// of its bytes behind the head of a record, which is stored last.
func (c *Cursor) headlessState(rnd *rand.Rand, yield func(State) bool) {
	if c.cut == len(c.trace.Ops) || c.trace.Ops[c.cut].Kind != wrap.OpWrite {
		return
	}
	op := c.trace.Ops[c.cut]
	n := c.files[op.file]
	if !n.log || n.reserved == 0 || op.Length <= vfs.LogHead {
		return
	}
	body := op.Length - vfs.LogHead
	from := rnd.IntN(body)
	to := from + 1 + rnd.IntN(body-from)
	from, to = op.Offset+vfs.LogHead+from, op.Offset+vfs.LogHead+to
	b := builder{model: M1, torn: n, headless: n.data[from:to:to], headlessAt: from}
	yield(State{Image: b.image(c.root), Detail: fmt.Sprintf("%q has stored its bytes %d to %d, but not its head", op, from, to)})
}

// tornStates yields the states of M2. There are none if everything is synced.
func (c *Cursor) tornStates(rnd *rand.Rand, yield func(State) bool) {
	torn := lastUnsynced(c.root)
	if torn == nil {
		return
	}
	var ends []int
	from := max(torn.lastOffset, torn.synced)
	for end := from - from%sectorSize + sectorSize; end < torn.written; end += sectorSize {
		ends = append(ends, end)
	}
	if torn.written-from > 1 {
		ends = append(ends, from+1+rnd.IntN(torn.written-from-1))
	}
	for _, end := range ends {
		b := builder{model: M2, torn: torn, tornEnd: end}
		detail := fmt.Sprintf("%q ends after %d of its bytes", c.trace.Ops[torn.lastWrite], end-torn.lastOffset)
		if !yield(State{Image: b.image(c.root), Detail: detail}) {
			return
		}
	}
}

// lastUnsynced returns the file with the newest write that is not durable, or nil if all writes are durable.
func lastUnsynced(dir *node) *node {
	var found *node
	for _, n := range dir.entries {
		if n.isDir() {
			n = lastUnsynced(n)
		}
		if n != nil && n.written > n.synced && (found == nil || n.lastWrite > found.lastWrite) {
			found = n
		}
	}
	return found
}

// builder builds an image.
type builder struct {
	model      Model
	rnd        *rand.Rand
	syncedOnly bool
	torn       *node // for M2, the file that ends at tornEnd, and for M1, the one with headless
	tornEnd    int
	headless   []byte // of a write to a log, at headlessAt
	headlessAt int

	out  Image
	made map[*node][]byte // a file with two names has one content
}

func (b *builder) image(root *node) Image {
	b.made = map[*node][]byte{}
	b.dir("", root)
	return b.out
}

func (b *builder) dir(prefix string, dir *node) {
	entries := b.entries(dir)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		n, path := entries[name], filepath.Join(prefix, name)
		if n.isDir() {
			b.out.Dirs = append(b.out.Dirs, path)
			b.dir(path, n)
			continue
		}
		data, ok := b.made[n]
		if !ok {
			data = b.content(n)
			b.made[n] = data
		}
		b.out.Files = append(b.out.Files, ImageFile{Path: path, Data: data})
	}
}

// entries returns the names that the directory has on the disk.
func (b *builder) entries(dir *node) map[string]*node {
	switch {
	case b.model == M0:
		return dir.durable
	case b.model <= M2 || len(dir.pending) == 0:
		return dir.entries
	}
	entries := maps.Clone(dir.durable)
	if b.model == M5 {
		order := b.rnd.Perm(len(dir.pending))
		for _, i := range order[:b.rnd.IntN(len(order)+1)] {
			set(entries, dir.pending[i])
		}
		return entries
	}
	for _, c := range dir.pending {
		if b.rnd.IntN(2) == 0 {
			set(entries, c)
		}
	}
	return entries
}

// content returns the bytes that the file has on the disk.
func (b *builder) content(n *node) []byte {
	switch {
	case b.model == M0 || b.syncedOnly:
		return zerosTo(n.data[:n.synced:n.synced], n.syncedReserved)
	case n == b.torn && b.headless != nil:
		data := zerosTo(n.data[:n.written:n.written], n.reserved)
		copy(data[b.headlessAt:], b.headless)
		return data
	case n == b.torn && n.log:
		return zerosTo(n.data[:b.tornEnd:b.tornEnd], max(n.written, n.reserved))
	case n == b.torn:
		return n.data[:b.tornEnd:b.tornEnd]
	case b.model == M3 || b.model == M4:
		if n.written > n.synced || n.reserved != n.syncedReserved {
			return b.pages(n)
		}
	}
	return zerosTo(n.data[:n.written:n.written], n.reserved)
}

// zerosTo returns data with zeros up to that length. It shares the bytes of data if there are none.
func zerosTo(data []byte, length int) []byte {
	if length <= len(data) {
		return data
	}
	longer := make([]byte, length)
	copy(longer, data)
	return longer
}

// pages returns the synced bytes and a random part of the later pages. The file may have its full
// length although its last pages were not written.
func (b *builder) pages(n *node) []byte {
	data := make([]byte, max(n.written, n.reserved, n.syncedReserved))
	copy(data, n.data[:n.synced])
	end := n.synced
	for from := n.synced; from < n.written; {
		to := min(from-from%pageSize+pageSize, n.written)
		if b.rnd.IntN(2) == 0 {
			copy(data[from:to], n.data[from:to])
			end = to
		} else if b.model == M4 {
			b.garbage(data[from:to])
		}
		from = to
	}
	if b.rnd.IntN(2) == 0 {
		end = n.written
	}
	if n.log {
		end = b.logEnd(n, data, end)
	}
	return data[:end]
}

// logEnd returns where a log ends: anywhere between end and its reserved length. Its length of the last sync is
// durable, unless it was cut since. Under M4 the reserved space may have garbage.
func (b *builder) logEnd(n *node, data []byte, end int) int {
	if n.reserved >= n.syncedReserved {
		end = max(end, n.syncedReserved)
	}
	if b.model == M4 && n.written < len(data) && b.rnd.IntN(4) == 0 {
		b.garbage(data[n.written:min(n.written+pageSize, len(data))])
	}
	if b.rnd.IntN(2) == 0 {
		end = len(data)
	}
	return end
}

func (b *builder) garbage(p []byte) {
	for i := range p {
		p[i] = byte(b.rnd.Uint32())
	}
}
