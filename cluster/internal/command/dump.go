package command

import (
	"math"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func dump(c *Call, _ kv.Reader, v kv.Value, found bool) error {
	switch {
	case !found:
		c.Reply.Null()
	case c.Reply.Fits(len(v.Data) + longestHeader):
		c.Reply.Bulk(appendDump(make([]byte, 0, len(v.Data)+longestHeader), v.Data))
	}
	return nil
}

type restoreOptions struct{ replace, absolute bool }

// parseRestoreOptions parses the options of RESTORE. The time and the frequency of use are checked, and not kept.
func (c *Call) parseRestoreOptions() (o restoreOptions, err error) {
	idle, frequency := false, false
	use := func(word string, seen, other *bool, most int64, invalid string) option {
		return option{word: word, takes: func(arg int) error {
			n, err := c.integer(arg)
			switch {
			case *other:
				return refusal(errSyntax)
			case err == nil && (n < 0 || n > most):
				return refusal(invalid)
			}
			*seen = true
			return err
		}}
	}
	err = c.options(4, option{word: "replace", is: &o.replace}, option{word: "absttl", is: &o.absolute},
		use("idletime", &idle, &frequency, math.MaxInt64, "ERR Invalid IDLETIME value, must be >= 0"),
		use("freq", &frequency, &idle, 255, "ERR Invalid FREQ value, must be >= 0 and <= 255"))
	return o, err
}

func restore(c *Call, tx kv.Tx, _ kv.Value, exists bool) error {
	o, err := c.parseRestoreOptions()
	if err != nil {
		return err
	}
	if exists && !o.replace {
		return refusal("BUSYKEY Target key name already exists.")
	}
	ttl, err := c.integer(2)
	if err != nil {
		return err
	}
	if ttl < 0 {
		return refusal("ERR Invalid TTL value, must be >= 0")
	}
	data, err := parseDump(c.Args[3], c.Limits.MaxValue)
	if err != nil {
		return refusal(err.Error())
	}
	v := kv.Value{Data: data}
	if ttl != 0 {
		var ok bool
		if v.ExpireAt, ok = (expiryUnit{millis: true, absolute: o.absolute}).at(ttl, tx.Now()); !ok {
			return invalidExpiry("restore")
		}
	}
	if exists || v.ExpireAt == 0 || v.ExpireAt > tx.Now() {
		put(tx, c.Args[1], v)
	}
	c.Reply.OK()
	return nil
}
