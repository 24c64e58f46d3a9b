package command

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sort"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Node evaluates the commands of kind OfNode. Its methods may be called by any goroutine.
type Node struct {
	cluster kv.Cluster
	scans   scans
	counts  counts
}

// NewNode returns the Node of a cluster.
func NewNode(cluster kv.Cluster) *Node { return &Node{cluster: cluster} }

// Run evaluates a command of kind OfNode.
func (n *Node) Run(ctx context.Context, cmd *Command, c *Call) {
	start := c.Reply.mark()
	err := n.run(ctx, cmd, c)
	if err != nil {
		c.Reply.undo(start)
	}
	if err = c.answer(err); err != nil {
		c.Reply.Error(Failure(err, 0, false))
	}
}

func (n *Node) run(ctx context.Context, cmd *Command, c *Call) error {
	switch cmd.Name {
	case "cluster":
		return n.describe(ctx, c)
	case "dbsize":
		return n.dbsize(ctx, c)
	case "keys":
		return n.keys(ctx, c)
	case "scan":
		return n.scan(ctx, c)
	case "randomkey":
		return n.randomkey(ctx, c)
	}
	return n.flush(ctx, c) // flushdb or flushall
}

// ledRange is a range of slots whose group this node leads.
type ledRange struct {
	group       kv.Group
	first, last uint16
}

// led returns the ranges that this node leads, in the order of slots.
func (n *Node) led() (ranges []ledRange) {
	groups, leading := n.cluster.Local()
	mine := map[kv.GroupID]kv.Group{}
	for i, g := range groups {
		if leading[i] {
			mine[g.ID()] = g
		}
	}
	_, slots := n.cluster.Map()
	for _, s := range slots {
		if g, ok := mine[s.Group]; ok {
			ranges = append(ranges, ledRange{g, s.First, s.Last})
		}
	}
	sort.Slice(ranges, func(i, j int) bool { return ranges[i].first < ranges[j].first })
	return ranges
}

// each calls f for the slots in [from, to] that this node leads, ascending, until f returns false or the meter ends. A
// group that another node leads by now is skipped. f may see the slots of a group again, after m.save's function.
func (n *Node) each(m *meter, from, to int, f func(r kv.Reader, slot uint16) (bool, error)) error {
	more := true
	for _, led := range n.led() {
		first, last := max(from, int(led.first)), min(to, int(led.last))
		if !more || first > last {
			continue
		}
		forget, before := m.save(), more
		err := led.group.View(m.ctx, false, func(r kv.Reader) (err error) {
			forget() // what an earlier call has found
			more = before
			for s := first; s <= last && more && err == nil; s++ {
				more, err = f(r, uint16(s))
				err = errors.Join(err, m.look())
			}
			return err
		})
		if errors.Is(err, kv.ErrTooLong) {
			err = cmp.Or(m.look(), err) // which has better advice
		}
		notLeader := new(kv.NotLeaderError)
		switch {
		case err == nil:
		case !errors.As(err, &notLeader):
			return err
		default:
			forget() // nobody has confirmed it
			more = before
		}
	}
	return nil
}

func (n *Node) dbsize(ctx context.Context, c *Call) error {
	keys, work := int64(0), meter{ctx: ctx, name: "DBSIZE"}
	work.save = func() func() { before := keys; return func() { keys = before } }
	count := func([]byte, kv.Value) bool {
		keys++
		return work.spend(keyWork)
	}
	err := n.each(&work, 0, kv.SlotCount-1, func(r kv.Reader, slot uint16) (bool, error) {
		return true, r.Scan(slot, nil, nil, false, count)
	})
	if err == nil {
		c.Reply.Int(keys)
	}
	return err
}

func (n *Node) keys(ctx context.Context, c *Call) error {
	if text := PatternTooLong(c.Args[1]); text != "" {
		return refusal(text)
	}
	m, found, tooLong := c.Reply.mark(), 0, false
	pattern, work := newGlob(c.Args[1]), meter{ctx: ctx, name: "KEYS"}
	work.save = func() func() {
		length, before := c.Reply.mark(), found
		return func() { c.Reply.undo(length); found, tooLong = before, false }
	}
	collect := func(key []byte, _ kv.Value) bool {
		if pattern.match(key) {
			c.Reply.Bulk(key)
			found++
			tooLong = c.tooLong(m)
		}
		return !tooLong && work.spend(keyWork+pattern.work(len(key)))
	}
	err := n.each(&work, 0, kv.SlotCount-1, func(r kv.Reader, slot uint16) (bool, error) {
		return !tooLong, r.Scan(slot, nil, nil, false, collect)
	})
	switch {
	case tooLong:
		return nil // the reply says so
	case err == nil:
		c.Reply.arrayAt(m, found)
	}
	return err
}

// randomKeys is how many keys of a slot RANDOMKEY chooses from.
const randomKeys = 100

// randomkey chooses from the first keys of the first slot that has some after a random one. So keys in
// slots with few keys are more likely.
func (n *Node) randomkey(ctx context.Context, c *Call) error {
	var candidates [][]byte
	collect := func(key []byte, _ kv.Value) bool {
		candidates = append(candidates, append([]byte(nil), key...))
		return len(candidates) < randomKeys
	}
	firstKeys := func(r kv.Reader, slot uint16) (bool, error) {
		err := r.Scan(slot, nil, nil, false, collect)
		return len(candidates) == 0, err
	}
	from, work := rand.IntN(kv.SlotCount), meter{ctx: ctx, name: "RANDOMKEY"}
	work.save = func() func() { return func() { candidates = nil } }
	err := n.each(&work, from, kv.SlotCount-1, firstKeys)
	if err == nil && len(candidates) == 0 {
		err = n.each(&work, 0, from-1, firstKeys)
	}
	switch {
	case err != nil:
	case len(candidates) == 0:
		c.Reply.Null()
	default:
		c.Reply.Bulk(candidates[rand.IntN(len(candidates))])
	}
	return err
}

func (n *Node) flush(ctx context.Context, c *Call) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !c.is(1, "async") && !c.is(1, "sync") {
		return refusal(errSyntax)
	}
	var pending []kv.Pending
	var first error
	groups, leading := n.cluster.Local()
	for i, g := range groups {
		if !leading[i] {
			continue
		}
		p, err := g.Update(ctx, func(tx kv.Tx) error {
			tx.DeleteAll()
			return nil
		})
		if err == nil {
			pending = append(pending, p)
		} else if first == nil {
			first = err
		}
	}
	flushed := 0
	for _, p := range pending {
		err := p.Wait(ctx)
		switch {
		case err == nil:
			flushed++
		case first == nil, errors.Is(err, kv.ErrUnknown):
			first = err // an unknown outcome says more than another error
		}
	}
	switch notLeader := new(kv.NotLeaderError); {
	case first == nil:
		c.Reply.OK()
		return nil
	case errors.Is(first, kv.ErrUnknown) || isTimeout(first):
	case errors.As(first, &notLeader):
		return refusal("TRYAGAIN a group has another leader by now; other groups are flushed")
	case flushed > 0: // the texts of Failure say that nothing was done
		return refusal("TRYAGAIN a group was not flushed, other groups are flushed: " + first.Error())
	}
	return refusal(Failure(first, 0, true))
}
