package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

type lcsOptions struct {
	length, index, withLength bool
	shortest                  int64 // match of IDX
}

func (c *Call) parseLCSOptions() (o lcsOptions, err error) {
	err = c.options(3, option{word: "idx", is: &o.index}, option{word: "len", is: &o.length},
		option{word: "withmatchlen", is: &o.withLength}, c.number("minmatchlen", &o.shortest))
	if err == nil && o.length && o.index {
		err = refusal("ERR If you want both the length and indexes, please just use IDX.")
	}
	return o, err
}

// lcsTable has the length of the longest common subsequence of each pair of beginnings of a and b. It is computed as by
// Redis, so that of several longest ones it is the same.
type lcsTable struct {
	a, b  []byte
	cells []uint32 // of the first i bytes of a and j of b at i*(len(b)+1)+j
}

// lcsCell is the size of a cell.
const lcsCell = 4

func newLCSTable(a, b []byte) *lcsTable {
	t := &lcsTable{a: a, b: b, cells: make([]uint32, (len(a)+1)*(len(b)+1))}
	width := len(b) + 1
	for i, x := range a {
		above, row := t.cells[i*width:(i+1)*width], t.cells[(i+1)*width:(i+2)*width]
		for j, y := range b {
			if x == y {
				row[j+1] = above[j] + 1
			} else {
				row[j+1] = max(above[j+1], row[j])
			}
		}
	}
	return t
}

func (t *lcsTable) at(i, j int) uint32 { return t.cells[i*(len(t.b)+1)+j] }

// lcsMatch is a common part: length bytes, which end before the positions endA and endB.
type lcsMatch struct{ endA, endB, length int }

// walk returns the subsequence, and its parts from the last one on.
func (t *lcsTable) walk() (common []byte, matches []lcsMatch) {
	i, j := len(t.a), len(t.b)
	common = make([]byte, t.at(i, j))
	left, m := len(common), lcsMatch{}
	for i > 0 && j > 0 {
		switch {
		case t.a[i-1] == t.b[j-1]:
			if m.length == 0 {
				m = lcsMatch{endA: i, endB: j}
			}
			m.length++
			i, j, left = i-1, j-1, left-1
			common[left] = t.a[i]
			continue
		case t.at(i-1, j) > t.at(i, j-1):
			i--
		default:
			j--
		}
		if m.length > 0 {
			matches, m = append(matches, m), lcsMatch{}
		}
	}
	if m.length > 0 {
		matches = append(matches, m)
	}
	return common, matches
}

func lcs(c *Call, r kv.Reader) error {
	a, _, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
	b, _, err := r.Get(c.Args[2])
	if err != nil {
		return err
	}
	o, err := c.parseLCSOptions()
	if err != nil {
		return err
	}
	if (int64(len(a.Data))+1)*(int64(len(b.Data))+1)*lcsCell > int64(min(c.Limits.MaxValue, maxLCSTable)) {
		return refusal("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
	}
	if !c.Reply.Borrow((len(a.Data) + 1) * (len(b.Data) + 1) * lcsCell) {
		return nil
	}
	t := newLCSTable(a.Data, b.Data)
	common, matches := t.walk()
	c.Reply.GiveBack()
	switch {
	case o.length:
		c.Reply.Int(int64(len(common)))
	case o.index:
		c.lcsMatches(o, matches, int64(len(common)))
	default:
		c.Reply.Bulk(common)
	}
	return nil
}

// maxLCSTable bounds the table of LCS: it is computed while other commands wait, in about 50 ms.
const maxLCSTable = 64 << 20

func (c *Call) lcsMatches(o lcsOptions, matches []lcsMatch, length int64) {
	c.Reply.Map(2)
	c.Reply.Text("matches")
	m, n := c.Reply.mark(), 0
	for _, match := range matches {
		if int64(match.length) < o.shortest {
			continue
		}
		n++
		if o.withLength {
			c.Reply.Array(3)
		} else {
			c.Reply.Array(2)
		}
		for _, end := range []int{match.endA, match.endB} {
			c.Reply.Array(2)
			c.Reply.Int(int64(end - match.length))
			c.Reply.Int(int64(end - 1))
		}
		if o.withLength {
			c.Reply.Int(int64(match.length))
		}
	}
	c.Reply.arrayAt(m, n)
	c.Reply.Text("len")
	c.Reply.Int(length)
}
