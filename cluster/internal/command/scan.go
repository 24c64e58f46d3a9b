package command

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// A cursor of SCAN is 0 at the beginning and at the end, or the next slot to read, or, if SCAN stopped within a slot,
// that slot in the low 14 bits and above them the number of a position that this node remembers. Numbers are random, so
// that a cursor from before a restart is not taken for another. If a position is forgotten, SCAN reads the slot from
// its beginning: keys may be returned again, none is left out.
const (
	slotBits      = 14
	positionBits  = 48 // cursors stay below 1<<63, because some clients parse them as signed
	maxScans      = 4096
	maxScanBytes  = 16 << 20
	scanPageKeys  = 1000    // of one slot, if COUNT is lower
	scanMaxCount  = 10_000  // the largest COUNT
	scanPageBytes = 1 << 20 // of keys
	scanPageSlots = 4096    // bounds the time of a page without keys
)

// scans remembers positions within slots, the newest ones.
type scans struct {
	mu sync.Mutex
	// These are guarded by mu. order has the ids of after, the oldest first.
	after map[uint64][]byte
	order []uint64
	bytes int
}

// remember returns the number of a position.
func (s *scans) remember(key []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after == nil {
		s.after = map[uint64][]byte{}
	}
	id := 1 + rand.Uint64N(1<<positionBits-1)
	for s.after[id] != nil {
		id = 1 + rand.Uint64N(1<<positionBits-1)
	}
	s.after[id] = append(make([]byte, 0, len(key)), key...)
	s.order = append(s.order, id)
	s.bytes += len(key)
	for len(s.order) > maxScans || s.bytes > maxScanBytes && len(s.order) > 1 {
		s.bytes -= len(s.after[s.order[0]])
		delete(s.after, s.order[0])
		s.order = s.order[1:]
	}
	return id
}

// position returns the key of a position, or nil if it is forgotten.
func (s *scans) position(id uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.after[id]
}

// scanPage is the work of one SCAN.
type scanPage struct {
	c       *Call
	pattern *glob // nil: all keys
	none    bool  // a TYPE other than string: no key matches
	count   int

	work                   meter
	examined, found, slots int
	bytes                  int
	stopped                []byte // the last key read, if the page ends within a slot
}

func (n *Node) scan(ctx context.Context, c *Call) error {
	cursor, err := strconv.ParseUint(string(c.Args[1]), 10, 64)
	if err != nil {
		return refusal("ERR invalid cursor")
	}
	page := scanPage{c: c, count: 10, work: meter{ctx: ctx, name: "SCAN"}}
	if err := page.parseOptions(); err != nil {
		return err
	}
	m, slot := c.Reply.mark(), int(cursor%kv.SlotCount)
	var start []byte
	if after := n.scans.position(cursor >> slotBits); after != nil {
		start = append(append(make([]byte, 0, len(after)+1), after...), 0) // the next possible key
	}
	next := uint64(0)
	page.work.save = func() func() {
		before, length, from := page, c.Reply.mark(), start
		return func() {
			c.Reply.undo(length)
			page.restore(&before)
			start, next = from, 0
		}
	}
	err = n.each(&page.work, slot, kv.SlotCount-1, func(r kv.Reader, s uint16) (bool, error) {
		if page.full() {
			next = uint64(s)
			return false, nil
		}
		from := start
		start = nil
		if int(s) != slot {
			from = nil // another node leads the slot of the cursor by now
		}
		err := page.read(r, s, from)
		if page.stopped != nil {
			next = n.scans.remember(page.stopped)<<slotBits | uint64(s)
		}
		return page.stopped == nil, err
	})
	if err != nil {
		return err
	}
	c.Reply.arrayAt(m, page.found)
	keys := append([]byte(nil), c.Reply.Bytes[m:]...)
	c.Reply.undo(m)
	c.Reply.Array(2)
	c.Reply.Text(strconv.FormatUint(next, 10))
	c.Reply.Bytes = append(c.Reply.Bytes, keys...)
	return nil
}

// restore forgets what was read since a page was as before.
func (p *scanPage) restore(before *scanPage) {
	p.examined, p.found, p.slots, p.bytes = before.examined, before.found, before.slots, before.bytes
	p.stopped = before.stopped
}

func (p *scanPage) parseOptions() error {
	c := p.c
	return c.options(2, option{word: "count", takes: func(arg int) error {
		n, err := c.integer(arg)
		if err == nil && n < 1 {
			err = refusal(errSyntax)
		}
		p.count = int(min(n, scanMaxCount))
		return err
	}}, option{word: "match", takes: func(arg int) error {
		if text := PatternTooLong(c.Args[arg]); text != "" {
			return refusal(text)
		}
		p.pattern = newGlob(c.Args[arg])
		return nil
	}}, option{word: "type", takes: func(arg int) error {
		p.none = !c.is(arg, "string")
		return nil
	}})
}

func (p *scanPage) full() bool {
	return p.examined >= p.count || p.bytes >= scanPageBytes || p.slots >= scanPageSlots
}

// read reads the keys of a slot from a key on, and sets stopped if they are too many for this page.
func (p *scanPage) read(r kv.Reader, slot uint16, from []byte) error {
	p.slots++
	read, limit := 0, max(p.count, scanPageKeys)
	var last []byte
	return r.Scan(slot, from, nil, false, func(key []byte, _ kv.Value) bool {
		if read > 0 && (read >= limit || p.bytes >= scanPageBytes) {
			p.stopped = last
			return false
		}
		last = append(last[:0], key...)
		read++
		p.examined++
		p.bytes += len(key)
		work := keyWork
		if p.pattern != nil {
			work += p.pattern.work(len(key))
		}
		if !p.none && (p.pattern == nil || p.pattern.match(key)) {
			p.c.Reply.Bulk(key)
			p.found++
		}
		return p.work.spend(work)
	})
}
