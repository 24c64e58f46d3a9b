package command

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func dump(c *Call, r kv.Reader) error {
	v, found, err := r.Get(c.Args[1])
	if err != nil {
		return err
	}
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
func (c *Call) parseRestoreOptions() (o restoreOptions, ok bool) {
	idle, frequency := false, false
	for i := 4; i < len(c.Args); i++ {
		switch more := i+1 < len(c.Args); {
		case c.is(i, "replace"):
			o.replace = true
		case c.is(i, "absttl"):
			o.absolute = true
		case c.is(i, "idletime") && more && !frequency, c.is(i, "freq") && more && !idle:
			isIdle := c.is(i, "idletime")
			i++
			n, ok := c.integer(i)
			switch {
			case !ok:
				return o, false
			case isIdle && n < 0:
				c.Reply.Error("ERR Invalid IDLETIME value, must be >= 0")
				return o, false
			case !isIdle && (n < 0 || n > 255):
				c.Reply.Error("ERR Invalid FREQ value, must be >= 0 and <= 255")
				return o, false
			}
			idle, frequency = idle || isIdle, frequency || !isIdle
		default:
			c.Reply.Error(errSyntax)
			return o, false
		}
	}
	return o, true
}

func restore(c *Call, tx kv.Tx) error {
	o, ok := c.parseRestoreOptions()
	if !ok {
		return nil
	}
	_, exists, err := tx.Get(c.Args[1])
	if err != nil {
		return err
	}
	if exists && !o.replace {
		c.Reply.Error("BUSYKEY Target key name already exists.")
		return nil
	}
	ttl, ok := c.integer(2)
	if !ok {
		return nil
	}
	if ttl < 0 {
		c.Reply.Error("ERR Invalid TTL value, must be >= 0")
		return nil
	}
	data, err := parseDump(c.Args[3], c.Limits.MaxValue)
	if err != nil {
		c.Reply.Error(err.Error())
		return nil
	}
	v := kv.Value{Data: data}
	if ttl != 0 {
		if v.ExpireAt, ok = (expiryUnit{millis: true, absolute: o.absolute}).at(ttl, tx.Now()); !ok {
			c.invalidExpiry("restore")
			return nil
		}
	}
	if exists || v.ExpireAt == 0 || v.ExpireAt > tx.Now() {
		put(tx, c.Args[1], v)
	}
	c.Reply.OK()
	return nil
}
