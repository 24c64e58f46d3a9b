package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// defaultRangeLimit is LIMIT of RANGE and REVRANGE if a client gives none.
const defaultRangeLimit = 1000

type rangeOptions struct {
	limit    int64
	keysOnly bool
}

func (c *Call) parseRangeOptions() (o rangeOptions, ok bool) {
	o.limit = defaultRangeLimit
	for i := 3; i < len(c.Args); i++ {
		switch {
		case c.is(i, "keys"):
			o.keysOnly = true
		case c.is(i, "limit") && i+1 < len(c.Args):
			i++
			if o.limit, ok = c.integer(i); !ok {
				return o, false
			}
			if o.limit < 0 {
				c.Reply.Error("ERR LIMIT must not be negative")
				return o, false
			}
		default:
			c.Reply.Error(errSyntax)
			return o, false
		}
	}
	return o, true
}

// scanRange returns the function of RANGE start limit [LIMIT n] [KEYS], or of REVRANGE. It replies with the
// keys in [start, limit), each with its value unless KEYS is given.
func scanRange(reverse bool) func(*Call, kv.Reader) error {
	return func(c *Call, r kv.Reader) error {
		o, ok := c.parseRangeOptions()
		if !ok {
			return nil
		}
		m, elements, left, tooLong := c.Reply.mark(), 0, o.limit, false
		collect := func(key []byte, v kv.Value) bool {
			if left == 0 {
				return false
			}
			left--
			c.Reply.Bulk(key)
			elements++
			if !o.keysOnly {
				c.Reply.Bulk(v.Data)
				elements++
			}
			tooLong = c.tooLong(m)
			return !tooLong && left > 0
		}
		if string(c.Args[1]) < string(c.Args[2]) && o.limit > 0 {
			if err := r.Scan(slot.Of(c.Args[1]), c.Args[1], c.Args[2], reverse, collect); err != nil {
				return err
			}
		}
		if !tooLong {
			c.Reply.arrayAt(m, elements)
		}
		return nil
	}
}
