package command

import (
	"math"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// expiryUnit is how an argument gives a time.
type expiryUnit struct {
	millis   bool // milliseconds rather than seconds
	absolute bool // since 1970 rather than from now
}

var (
	inSeconds = expiryUnit{}
	inMillis  = expiryUnit{millis: true}
	atSeconds = expiryUnit{absolute: true}
	atMillis  = expiryUnit{millis: true, absolute: true}
)

// at returns the time in milliseconds since 1970; ok is false if that would overflow.
func (u expiryUnit) at(n, now int64) (at int64, ok bool) {
	if !u.millis {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, false
		}
		n *= 1000
	}
	if u.absolute {
		return n, true
	}
	if n > math.MaxInt64-now {
		return 0, false
	}
	return n + now, true
}

func invalidExpiry(name string) error { return refuse("ERR invalid expire time in '%s' command", name) }

// futureExpiry parses an argument that must be positive, as those of SET and GETEX.
func (c *Call) futureExpiry(arg int, u expiryUnit, now int64, name string) (int64, error) {
	n, err := c.integer(arg)
	if err != nil {
		return 0, err
	}
	at, ok := u.at(n, now)
	if !ok || n <= 0 {
		return 0, invalidExpiry(name)
	}
	return at, nil
}

// put stores a value, or deletes the key if its time has come already.
func put(tx kv.Tx, key []byte, v kv.Value) {
	if v.ExpireAt != 0 && v.ExpireAt <= tx.Now() {
		tx.Delete(key)
		return
	}
	tx.Put(key, v)
}

// expireConditions are the options of EXPIRE.
type expireConditions struct{ nx, xx, gt, lt bool }

func (c *Call) parseExpireConditions() (o expireConditions, err error) {
	for i := 3; i < len(c.Args); i++ {
		switch {
		case c.is(i, "nx"):
			o.nx = true
		case c.is(i, "xx"):
			o.xx = true
		case c.is(i, "gt"):
			o.gt = true
		case c.is(i, "lt"):
			o.lt = true
		default:
			return o, refuse("ERR Unsupported option %.128s", c.Args[i])
		}
	}
	if o.nx && (o.xx || o.gt || o.lt) {
		return o, refusal("ERR NX and XX, GT or LT options at the same time are not compatible")
	}
	if o.gt && o.lt {
		return o, refusal("ERR GT and LT options at the same time are not compatible")
	}
	return o, nil
}

// permit reports whether a key that expires at current (0: never) may get another time.
func (o expireConditions) permit(current, at int64) bool {
	switch {
	case o.nx && current != 0, o.xx && current == 0:
		return false
	case o.gt && (current == 0 || at <= current):
		return false
	case o.lt && current != 0 && at >= current:
		return false
	}
	return true
}

// expire returns the function of EXPIRE and its variants.
func expire(name string, u expiryUnit) func(*Call, kv.Tx) error {
	return func(c *Call, tx kv.Tx) error {
		conditions, err := c.parseExpireConditions()
		if err != nil {
			return err
		}
		n, err := c.integer(2)
		if err != nil {
			return err
		}
		at, ok := u.at(n, tx.Now())
		if !ok {
			return invalidExpiry(name)
		}
		v, found, err := tx.Get(c.Args[1])
		if err != nil {
			return err
		}
		if !found || !conditions.permit(v.ExpireAt, at) {
			c.Reply.Int(0)
			return nil
		}
		if at <= tx.Now() { // also all times at or before 1970
			tx.Delete(c.Args[1])
		} else {
			tx.Put(c.Args[1], kv.Value{Data: v.Data, ExpireAt: at})
		}
		c.Reply.Int(1)
		return nil
	}
}

func persist(c *Call, tx kv.Tx, v kv.Value, found bool) error {
	changes := found && v.ExpireAt != 0
	if changes {
		tx.Put(c.Args[1], kv.Value{Data: v.Data})
	}
	c.Reply.Flag(changes)
	return nil
}

// ttl returns the function of TTL and its variants.
func ttl(u expiryUnit) func(*Call, kv.Reader) error {
	return ofValue(func(c *Call, r kv.Reader, v kv.Value, found bool) error {
		n := v.ExpireAt
		switch {
		case !found:
			c.Reply.Int(-2)
			return nil
		case n == 0:
			c.Reply.Int(-1)
			return nil
		}
		if !u.absolute {
			n = max(0, n-r.Now())
		}
		if !u.millis {
			n = n/1000 + (n%1000+500)/1000 // rounded, without an overflow
		}
		c.Reply.Int(n)
		return nil
	})
}
