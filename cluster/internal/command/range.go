package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// defaultRangeLimit is LIMIT of RANGE and REVRANGE if a client gives none.
const defaultRangeLimit = 1000

// scanRange returns the function of RANGE start limit [LIMIT n] [KEYS], or of REVRANGE. It replies with the
// keys in [start, limit), each with its value unless KEYS is given.
func scanRange(reverse bool) func(*Call, kv.Reader) error {
	return func(c *Call, r kv.Reader) error {
		limit, keysOnly := int64(defaultRangeLimit), false
		err := c.options(3, option{word: "keys", is: &keysOnly}, option{word: "limit", takes: func(arg int) (err error) {
			if limit, err = c.integer(arg); err == nil && limit < 0 {
				err = refusal("ERR LIMIT must not be negative")
			}
			return err
		}})
		if err != nil {
			return err
		}
		m, elements, left, tooLong := c.Reply.mark(), 0, limit, false
		collect := func(key []byte, v kv.Value) bool {
			if left == 0 {
				return false
			}
			left--
			c.Reply.Bulk(key)
			elements++
			if !keysOnly {
				c.Reply.Bulk(v.Data)
				elements++
			}
			tooLong = c.tooLong(m)
			return !tooLong && left > 0
		}
		if string(c.Args[1]) < string(c.Args[2]) && limit > 0 {
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
